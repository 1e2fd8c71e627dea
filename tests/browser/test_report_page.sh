#!/usr/bin/env bash
# test_report_page.sh: the page of a report in a real browser: no error on its console, every plot drawn, filter and
# sort, on a phone and a desktop, light and dark, and on paper; and a plot as a picture.
#
#   BUILD=build tests/browser/test_report_page.sh [FOLDER]    leaves the pictures in FOLDER, for inspection
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/../cli/common.sh"

pictures=${1:-$BUILD/report_pictures}
mkdir -p "$pictures"
pictures=$(cd "$pictures" && pwd)
chromium=$(command -v chromium) || { fail 'a browser' 'chromium is needed'; finish; }

# browse PAGE FLAG...: the browser on one page; prints its output, including the page's console.
browse() {
    local page=$1
    shift
    timeout 60 "$chromium" --headless --no-sandbox --disable-gpu --no-first-run --disable-extensions --disable-dev-shm-usage \
        --disable-background-networking --hide-scrollbars --user-data-dir="$scratch/profile" --enable-logging=stderr --v=0 \
        --virtual-time-budget=2000 "$@" "file://$page" 2>&1
}

# quiet NAME FILE: the page's console printed nothing in it.
quiet() {
    if grep -q 'CONSOLE' "$2"; then
        fail "$1" "$(grep CONSOLE "$2" | head -c 600)"
    else
        pass
    fi
}

attest report "$root/evidence" -o page.html --price-per-hour 3.5 || fail 'the page' 'attest report failed'

# The test can see an error: a page with the same policy, and a foreign script.
sed 's|</main>|<script>document.title = "run"</script></main>|' page.html >script.html
browse "$scratch/script.html" --dump-dom >script.out
check 'another script is refused, and the console says so' bash -c \
    "grep -q 'CONSOLE.*Content Security Policy' script.out && ! grep -q '<title>run' script.out"

browse "$scratch/page.html" --dump-dom >dom.out
quiet 'no complaint on the console' dom.out
check 'the whole page was read' grep -q '</html>' dom.out
check 'every plot is there' python3 - page.html dom.out <<'END'
import re, sys
written, read = (open(name).read() for name in sys.argv[1:])
count = lambda text, pattern: len(re.findall(pattern, text))
assert count(read, '<svg class="plot"') == count(written, '<svg class="plot"') >= 10
for part in ('class="mark ', 'class="span ', 'class="roof', 'class="line ', 'class="row"', "<table", '<section id="'):
    assert count(read, part) == count(written, part) > 0, part
assert "parsererror" not in read
END

# The page's own script, driven from outside: without it there is no field and no button.
cat >drive.html <<'END'
<!DOCTYPE html><html><body><iframe id="f" src="page.html" width="1400" height="900"></iframe><script>
const all = (root, what) => Array.from(root.querySelectorAll(what));
document.getElementById("f").addEventListener("load", () => {
  const d = document.getElementById("f").contentDocument, said = {};
  const shown = () => all(d, "table.sorts tbody tr").filter((row) => !row.hidden);
  const field = d.querySelector(".filter input");
  const type = (text) => { field.value = text; field.dispatchEvent(new Event("input")); };
  said.rows = shown().length;
  type("FlashAttention-3 backward");
  said.filtered = shown().length;
  said.fits = shown().every((row) => /flashattention-3/i.test(row.textContent) && /backward/.test(row.textContent));
  said.gone = all(d, "figure.filters").filter((figure) => figure.getBoundingClientRect().height === 0).length;
  said.count = d.querySelector(".filter span").textContent;
  type("");
  said.again = shown().length;
  const table = d.querySelector("#losses table"), head = all(table, "thead th").find((th) => th.textContent === "attest");
  const times = () => all(table, "tbody tr").map((row) => parseFloat(row.cells[head.cellIndex].dataset.v));
  head.querySelector("button").click();
  const up = times();
  said.ascending = head.getAttribute("aria-sort") === "ascending" && up.every((t, i) => i === 0 || up[i - 1] <= t);
  head.querySelector("button").click();
  said.descending = times().join() === up.slice().reverse().join();
  said.wide = d.documentElement.scrollWidth;
  const height = (part) => part.getBoundingClientRect().height;
  const rows = all(d, ".row").filter((row) => row.querySelector(".strip use"));
  said.rows_drawn = rows.length;
  said.tall = rows.filter((row) => height(row) > height(row.querySelector(".strip")) + 2).length;
  said.broken = rows.filter((row) => height(row.querySelector("use")) < height(row) - 2).length;
  said.ragged = all(d, ".panels").filter((panels) => {
    const plots = all(panels, "svg.plot").map((plot) => plot.getBoundingClientRect());
    return plots.some((a) => plots.some((b) => Math.abs(a.top - b.top) > 1 && Math.abs(a.top - b.top) < 60));
  }).length;
  all(d, "details").forEach((part) => part.setAttribute("open", ""));
  said.over = all(d, ".scroll").map((part) => [part.closest("section").id, part.scrollWidth - part.clientWidth]).filter((part) => part[1] > 0);
  document.title = "driven";
  document.body.dataset.said = JSON.stringify(said);
});
</script></body></html>
END
browse "$scratch/drive.html" --disable-web-security --allow-file-access-from-files --virtual-time-budget=8000 --dump-dom >drive.out
check 'filter and sort' python3 - drive.out <<'END'
import html, json, re, sys
said = json.loads(html.unescape(re.search(r'data-said="([^"]*)"', open(sys.argv[1]).read()).group(1)))
assert 0 < said["filtered"] < said["rows"] == said["again"] and said["fits"] and said["gone"] > 0, said
assert re.fullmatch(r"\d+ of \d+ rows", said["count"]), said
assert said["ascending"] and said["descending"] and said["wide"] <= 1400, said
# Lines cross rows whose labels wrap, and plots beside each other are level although their titles wrap.
assert said["rows_drawn"] > said["tall"] > 0 and said["broken"] == 0 and said["ragged"] == 0, said
# Every column of a table is on a desktop's screen, except of the history, where a row has two runs with their files.
assert {section for section, _ in said["over"]} <= {"history"}, said["over"]
END
sed '/^<script>/,/^<\/script>/d' page.html >without.html
browse "$scratch/without.html" --dump-dom >without.out
check 'without the script everything is there but the field' bash -c \
    "! grep -q '<script>\|type=.search' without.out && grep -q '<section id=.environment' without.out"

# A phone is narrower than the browser's narrowest window: the page is put into a frame of its width.
frame() { # frame WIDTH HEIGHT: a page that shows the report so wide
    printf '<!DOCTYPE html><html><body style="margin:0"><iframe src="page.html" width="%d" height="%d" style="border:0"></iframe></body></html>' "$1" "$2"
}
frame 390 2000 >phone.html
cp page.html desktop.html

# A picture of a page that has more than one colour, and in which the dark theme is dark.
for theme in light dark; do
    scheme=$([[ $theme == dark ]] && echo 0 || echo 1)
    for size in phone:390:2000 desktop:1400:2000; do
        IFS=: read -r name width height <<<"$size"
        picture=$pictures/$name-$theme.png
        rm -f "$picture"
        browse "$scratch/$name.html" --window-size="$width,$height" --screenshot="$picture" \
            --blink-settings="preferredColorScheme=$scheme" >"$name-$theme.out"
        quiet "$name, $theme: no complaint" "$name-$theme.out"
        check "$name, $theme: a picture" python3 "$tests_folder/../browser/picture.py" "$picture" "$width" "$theme"
    done
done

# Nothing except tables, which scroll, is wider than a phone.
sed 's|id="f" src="page.html" width="1400"|id="f" src="page.html" width="390"|' drive.html >narrow.html
browse "$scratch/narrow.html" --disable-web-security --allow-file-access-from-files --virtual-time-budget=8000 --dump-dom >narrow.out
check 'as wide as a phone' bash -c "grep -o 'wide&quot;:[0-9]*' narrow.out | grep -qx 'wide&quot;:390'"

attest report "$root/evidence/h200" --svg rates-forward --dark -o picture.svg
browse "$scratch/picture.svg" --window-size=984,700 --screenshot="$pictures/rates-forward-dark.png" >picture.out
quiet 'a plot as a picture: no complaint' picture.out
check 'a plot as a picture' python3 "$tests_folder/../browser/picture.py" "$pictures/rates-forward-dark.png" 984 dark

browse "$scratch/page.html" --no-pdf-header-footer --print-to-pdf="$pictures/report.pdf" >pdf.out
quiet 'on paper: no complaint' pdf.out
sed 's/<details/<details open/g' "$scratch/page.html" >"$scratch/unfolded.html"
browse "$scratch/unfolded.html" --no-pdf-header-footer --print-to-pdf="$pictures/unfolded.pdf" >pdf.out
quiet 'on paper with every table open: no complaint' pdf.out
# Evidence grows, so the limit is per row of a table: twenty fill a page, with their share of the plots.
check 'on paper: several pages, and tables that are open take more' python3 - "$scratch/page.html" "$pictures/report.pdf" "$pictures/unfolded.pdf" <<'END'
import re, sys

def pages_of(path):
    data = open(path, "rb").read()
    assert data.startswith(b"%PDF-") and b"%%EOF" in data[-64:], path
    return max(int(count) for count in re.findall(rb"/Count (\d+)", data))

rows = open(sys.argv[1], encoding="utf-8").read().count("<tr")
folded, unfolded = pages_of(sys.argv[2]), pages_of(sys.argv[3])
assert 5 <= folded < unfolded <= rows // 20, (folded, unfolded, rows)
END
finish
