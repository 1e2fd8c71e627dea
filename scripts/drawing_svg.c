/* drawing_svg.c: the first character drawing of a page, as an SVG picture.
 *
 *     drawing_svg PAGE.md light|dark
 *
 * The drawing is the first block between lines of three backticks. Box-drawing characters
 * become lines, everything else becomes text, each run as wide as its characters: positions
 * match those of the page in any font. Backticks are left out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELL = 8, LINE = 18, MARGIN = 12, ROWS_MOST = 100, COLUMNS_MOST = 160, BYTES_MOST = 5 };

/* The directions in which a line leaves the middle of its cell. */
enum { LEFT = 1, RIGHT = 2, UP = 4, DOWN = 8 };

typedef struct cell {
    char text[BYTES_MOST];
} cell;

static cell cells[ROWS_MOST][COLUMNS_MOST];
static size_t rows, columns;

static void fail(const char *what) {
    fprintf(stderr, "drawing_svg: %s\n", what);
    exit(1);
}

/* The directions of a box-drawing character; 0: it is text. */
static int ways_of(const char *text) {
    static const struct {
        const char *text;
        int ways;
    } boxes[] = {{"─", LEFT | RIGHT},
                 {"│", UP | DOWN},
                 {"┌", RIGHT | DOWN},
                 {"┐", LEFT | DOWN},
                 {"└", RIGHT | UP},
                 {"┘", LEFT | UP},
                 {"├", RIGHT | UP | DOWN},
                 {"┤", LEFT | UP | DOWN},
                 {"┬", LEFT | RIGHT | DOWN},
                 {"┴", LEFT | RIGHT | UP},
                 {"┼", LEFT | RIGHT | UP | DOWN}};
    for (size_t i = 0; i < sizeof boxes / sizeof boxes[0]; i++)
        if (strcmp(text, boxes[i].text) == 0)
            return boxes[i].ways;
    return 0;
}

static void add_cells(size_t *column, const char *text, size_t count) {
    for (size_t i = 0; i < count; i++, ++*column) {
        if (*column == COLUMNS_MOST)
            fail("the drawing is too wide");
        strcpy(cells[rows][*column].text, text);
    }
}

/* Split a line into cells: one for each UTF-8 character. Backticks are dropped, and blanks put
 * after their run of text instead, so that what follows keeps its place. */
static void read_row(const char *line) {
    size_t column = 0, dropped = 0;
    if (rows == ROWS_MOST)
        fail("the drawing is too high");
    while (*line && *line != '\n') {
        size_t length = 1;
        while (((unsigned char)line[length] & 0xc0) == 0x80)
            length++;
        char text[BYTES_MOST] = "";
        if (length >= BYTES_MOST)
            fail("a character is too long");
        memcpy(text, line, length);
        const int ends = ways_of(text) || (strncmp(line, "  ", 2) == 0);
        line += length;
        if (strcmp(text, "`") == 0) {
            dropped++;
            continue;
        }
        if (ends) {
            add_cells(&column, " ", dropped);
            dropped = 0;
        }
        add_cells(&column, text, 1);
    }
    columns = column > columns ? column : columns;
    rows++;
}

static void read_drawing(const char *path) {
    char line[COLUMNS_MOST * BYTES_MOST];
    FILE *page = fopen(path, "r");
    int inside = 0;
    if (!page)
        fail("the page cannot be read");
    while (inside < 2 && fgets(line, sizeof line, page))
        if (strncmp(line, "```", 3) == 0)
            inside++;
        else if (inside)
            read_row(line);
    fclose(page);
    if (inside < 2 || rows == 0)
        fail("the page has no drawing");
}

static void put_box(size_t row, size_t column, int ways) {
    const double x = CELL * ((double)column + 0.5), y = LINE * ((double)row + 0.5);
    printf("<path d=\"");
    if (ways & LEFT)
        printf("M%.1f %.1fh-%.1f", x, y, 0.5 * CELL);
    if (ways & RIGHT)
        printf("M%.1f %.1fh%.1f", x, y, 0.5 * CELL);
    if (ways & UP)
        printf("M%.1f %.1fv-%.1f", x, y, 0.5 * LINE);
    if (ways & DOWN)
        printf("M%.1f %.1fv%.1f", x, y, 0.5 * LINE);
    printf("\"/>\n");
}

static void put_character(const char *text) {
    const char *name = strcmp(text, "<") == 0   ? "&lt;"
                       : strcmp(text, "&") == 0 ? "&amp;"
                                                : text;
    fputs(name, stdout);
}

static int is_text(size_t row, size_t column) {
    const char *text = column < COLUMNS_MOST ? cells[row][column].text : "";
    return *text && strcmp(text, " ") != 0 && !ways_of(text);
}

/* A run of text: words separated by single spaces. */
static size_t put_run(size_t row, size_t first) {
    size_t end = first;
    while (is_text(row, end) || (cells[row][end].text[0] == ' ' && is_text(row, end + 1)))
        end++;
    printf("<text x=\"%zu\" y=\"%.1f\" textLength=\"%zu\">", CELL * first,
           LINE * ((double)row + 0.5) + 4.5, CELL * (end - first));
    for (size_t i = first; i < end; i++)
        put_character(cells[row][i].text);
    printf("</text>\n");
    return end;
}

int main(int argc, char **argv) {
    if (argc != 3 || (strcmp(argv[2], "light") != 0 && strcmp(argv[2], "dark") != 0))
        fail("expected a page, and light or dark");
    const int dark = strcmp(argv[2], "dark") == 0;
    read_drawing(argv[1]);
    const size_t width = CELL * columns + 2 * MARGIN, height = LINE * rows + 2 * MARGIN;
    printf("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%zu\" height=\"%zu\" "
           "viewBox=\"-%d -%d "
           "%zu %zu\">\n<style>\ntext{fill:%s;font:13px ui-monospace,Menlo,'DejaVu Sans "
           "Mono',monospace}\npath{stroke:%s;fill:none;stroke-width:1.5}\n.page{fill:%s}\n</"
           "style>\n"
           "<rect class=\"page\" x=\"-%d\" y=\"-%d\" width=\"%zu\" height=\"%zu\"/>\n",
           width, height, MARGIN, MARGIN, width, height, dark ? "#e4e9ee" : "#1c2127",
           dark ? "#6cb2ff" : "#0a58a8", dark ? "#13171c" : "#fff", MARGIN, MARGIN, width,
           height);
    for (size_t row = 0; row < rows; row++)
        for (size_t column = 0; column < columns;) {
            const int ways = ways_of(cells[row][column].text);
            if (ways)
                put_box(row, column, ways);
            column = is_text(row, column) ? put_run(row, column) : column + 1;
        }
    printf("</svg>\n");
    return 0;
}
