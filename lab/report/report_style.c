/* report_style.c: the style of a report's page: on a phone, on a screen, in dark mode and on
 * paper. */
#include <string.h>

#include "lab/report/report_page.h"

/* In parts: C guarantees only 4095 bytes per string. */
static const char *const rules[] = {
    "*{box-sizing:border-box}\n"
    "[hidden]{display:none!important}\n"
    "html{background:var(--bg);color:var(--fg);-webkit-text-size-adjust:100%;\n"
    "font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',sans-serif}\n"
    "body{margin:0 auto;max-width:88rem;padding:1.5rem 1.25rem 4rem}\n"
    "h1{font-size:1.6rem;line-height:1.2;margin:0 0 .25rem}\n"
    "h2{font-size:1.2rem;margin:2.75rem 0 .5rem;padding-top:.75rem;\n"
    "border-top:1px solid var(--line)}\n"
    "h3{font-size:1rem;margin:1.5rem 0 .25rem}\n"
    "p{margin:.4rem 0 .8rem;max-width:46rem}\n"
    ".soft{color:var(--soft)}\n"
    "a{color:var(--s0)}\n"
    "code{font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;\n"
    "font-size:.86em;overflow-wrap:anywhere}\n"
    "code.keep{white-space:nowrap}\n"
    "nav{font-size:.9rem;margin:1rem 0}\n"
    "nav a{display:inline-block;padding:.35rem .9rem .35rem 0}\n"
    ".faster{color:var(--faster)}\n"
    ".slower{color:var(--slower)}\n"
    ".same{color:var(--same)}\n"
    ".ambiguous{color:var(--ambiguous)}\n",

    ".cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,17rem),1fr));\n"
    "gap:.75rem;margin:1rem 0;padding:0;list-style:none}\n"
    ".cards li{border:1px solid var(--line);border-top:4px solid;border-radius:4px;\n"
    "padding:.6rem .8rem;background:var(--tint);font-size:.875rem}\n"
    ".cards h3{margin:0;color:var(--fg)}\n"
    ".cards "
    "b{display:block;font-size:1.9rem;line-height:1.2;font-variant-numeric:tabular-nums}\n"
    ".cards p{margin:.15rem 0;color:var(--fg)}\n"
    ".cards svg{display:block;width:100%;height:.5rem;margin:.3rem 0}\n"
    ".cards code{font-size:.8rem}\n"
    ".facts summary{padding:0}\n"
    ".facts{grid-template-columns:max-content minmax(0,1fr);gap:.2rem 1.25rem;margin:.75rem "
    "0}\n"
    ".filter{display:block;margin:1rem 0 0;font-size:.9rem}\n"
    ".filter input{font:inherit;color:inherit;background:var(--tint);padding:.35rem .6rem;\n"
    "border:1px solid var(--soft);border-radius:4px;width:min(100%,26rem);margin-right:.6rem}\n"
    "th button{font:inherit;color:inherit;background:none;border:0;padding:0;cursor:pointer}\n"
    "th button:hover{text-decoration:underline}\n"
    "th[aria-sort=ascending] button::after{content:' ▲'}\n"
    "th[aria-sort=descending] button::after{content:' ▼'}\n"
    ".scroll{overflow-x:auto}\n"
    "table{border-collapse:collapse;font-size:.875rem;margin:.5rem 0 1rem;\n"
    "font-variant-numeric:tabular-nums}\n"
    "th,td{padding:.3rem .8rem .3rem 0;text-align:left;vertical-align:top;\n"
    "border-bottom:1px solid var(--line)}\n"
    "td:first-child:not(.verdict){min-width:9rem}\n"
    "th{font-weight:600;vertical-align:bottom}\n"
    "tbody th{padding-top:1rem}\n"
    "td.num,th.num{text-align:right;white-space:nowrap}\n"
    "td.verdict{white-space:nowrap;font-weight:600}\n"
    "td code{white-space:nowrap;display:inline-block;max-width:30rem;overflow:hidden;\n"
    "text-overflow:ellipsis;vertical-align:top}\n"
    ".filters td code,.beside td code{max-width:16rem;white-space:normal}\n"
    "td svg{display:block;width:6rem;height:.9rem;margin-top:.25rem}\n"
    "tbody tr:hover{background:var(--tint)}\n"
    "dl{display:grid;grid-template-columns:minmax(0,2fr) minmax(0,3fr);gap:.2rem 1rem;\n"
    "font-size:.875rem;margin:.25rem 0 1rem}\n"
    "dt{color:var(--soft)}\n"
    "dd{margin:0;overflow-wrap:anywhere}\n"
    "li{overflow-wrap:anywhere}\n",

    ".figures{display:grid;gap:1.5rem 2rem;align-items:start;\n"
    "grid-template-columns:repeat(auto-fill,minmax(min(100%,21rem),1fr))}\n"
    ".beside{display:grid;gap:0 2.5rem;align-items:start;\n"
    "grid-template-columns:minmax(min(100%,20rem),30rem) minmax(0,1fr)}\n"
    ".beside figcaption,.beside p{grid-column:1/-1}\n"
    ".four>figure:has([open]),.figures>figure:has([open]){grid-column:1/-1}\n"
    ".panels{display:grid;gap:1rem 1.5rem;align-items:end;\n"
    "grid-template-columns:repeat(auto-fill,minmax(min(100%,19rem),1fr))}\n"
    ".four{display:grid;gap:0 1.5rem;grid-template-columns:repeat(4,minmax(0,1fr));\n"
    "align-items:start}\n"
    ".of2{grid-column:span 2}\n"
    ".of3{grid-column:span 3}\n"
    ".of4{grid-column:span 4}\n"
    "@media (max-width:75rem){.four{grid-template-columns:repeat(2,minmax(0,1fr))}\n"
    ".of3,.of4{grid-column:span 2}}\n"
    ".panels h4{font-size:.85rem;margin:0 0 .2rem;overflow-wrap:anywhere}\n"
    ".panels>*{min-width:0}\n"
    "figure{margin:.75rem 0 1.75rem;min-width:0}\n"
    "figcaption{font-weight:600;margin-bottom:.25rem;overflow-wrap:anywhere}\n"
    "summary{cursor:pointer;color:var(--s0);font-size:.9rem;padding:.35rem 0}\n"
    ".keys{display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;margin:.3rem 0 .5rem;padding:0;\n"
    "list-style:none;font-size:.85rem}\n"
    ".keys svg{width:.85rem;height:.85rem;margin-right:.35rem;vertical-align:-.08rem;\n"
    "overflow:visible}\n"
    ".row{display:grid;grid-template-columns:23rem minmax(0,1fr);align-items:center}\n"
    ".row+.row:not(.foot){border-top:1px solid var(--grid)}\n"
    ".row:hover{background:var(--tint)}\n"
    ".row code{font-size:.78rem;line-height:1.25;padding-right:.75rem}\n"
    "@media (min-width:48.01rem){.row{overflow-y:clip}\n"
    ".row:not(.foot) use{transform:scaleY(9);transform-origin:0 50%}}\n"
    ".row code b{float:right;font-weight:400}\n"
    ".foot span{font-size:.8rem;color:var(--soft);padding-right:.75rem;text-align:right}\n"
    ".strip{display:block;width:100%;overflow:visible}\n"
    "svg.plot{display:block;width:100%;height:auto;max-width:32rem;overflow:visible}\n"
    "svg text{fill:var(--fg);font:11px system-ui,sans-serif}\n"
    "svg .tick,svg .axis,svg .side{fill:var(--soft);font-size:10.5px}\n"
    "svg .row,svg .value{font:11px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',\n"
    "monospace}\n"
    "svg .side{paint-order:stroke;stroke:var(--bg);stroke-width:4px;stroke-linejoin:round}\n"
    ".grid{stroke:var(--grid);fill:none}\n"
    ".even{stroke:var(--fg);fill:none;stroke-width:1.25}\n"
    ".roof{stroke:var(--fg);fill:none;stroke-width:1.25}\n"
    ".seen{stroke-dasharray:4 3;stroke:var(--soft)}\n"
    ".line{fill:none;stroke:currentColor;stroke-width:1.5}\n"
    ".line.s0{stroke-width:2.5}\n"
    ".span{fill:none;stroke:currentColor;stroke-width:5;opacity:.35}\n"
    ".mark{fill:currentColor;stroke:currentColor;stroke-width:1}\n"
    ".s0{color:var(--s0)}\n"
    ".s1{color:var(--s1)}\n"
    ".s2{color:var(--s2)}\n"
    ".s3{color:var(--s3)}\n"
    ".s4{color:var(--s4)}\n"
    ".s5{color:var(--s5)}\n"
    ".s6{color:var(--s6)}\n"
    ".s7{color:var(--s7)}\n"
    ".s8{color:var(--s1)}.s9{color:var(--s2)}.s10{color:var(--s3)}\n"
    ".s11{color:var(--s4)}.s12{color:var(--s5)}.s13{color:var(--s6)}\n"
    ".s14{color:var(--s0)}.s15{color:var(--s0)}.s16{color:var(--s0)}\n"
    ".s17{color:var(--s0)}.s18{color:var(--s0)}.s19{color:var(--s1)}\n"
    ".s20{color:var(--s2)}.s21{color:var(--s3)}.s22{color:var(--s4)}\n"
    ".s23{color:var(--s5)}\n"
    ".mark.s8,.mark.s9,.mark.s10,.mark.s11,.mark.s12,.mark.s13,.mark.s14,.mark.s15,\n"
    ".mark.s16,.mark.s17,.mark.s18,.mark.s19,.mark.s20,.mark.s21,.mark.s22,.mark.s23{fill:var(-"
    "-bg);stroke-width:1.5}\n"
    ".whole{fill:var(--s0)}\n"
    ".gain,rect.faster{fill:var(--faster)}\n"
    ".cost,rect.slower{fill:var(--slower)}\n"
    "rect.same{fill:var(--same)}\n"
    "rect.unjudged{fill:var(--s0)}\n"
    ".cards .unjudged{border-top-color:var(--s0)}\n"
    ".cards .mixed{border-top-color:var(--ambiguous)}\n"
    ".cards .itself{border-top-color:var(--line)}\n"
    "rect.ambiguous{fill:var(--ambiguous)}\n"
    ".whisker{stroke:var(--fg);fill:none}\n",

    "@media (max-width:48rem){\n"
    ".row,.beside,.four{grid-template-columns:minmax(0,1fr)}\n"
    ".of2,.of3,.of4{grid-column:auto}\n"
    ".row{padding-top:.25rem}\n"
    ".foot{display:flex;flex-direction:column-reverse;align-items:stretch}\n"
    ".foot span{text-align:center}\n"
    ".facts{grid-template-columns:minmax(0,1fr);gap:0}\n"
    ".facts dd{margin-bottom:.5rem}\n"
    "td code{white-space:normal;min-width:12rem}\n"
    ".cards{grid-template-columns:repeat(2,minmax(0,1fr));gap:.5rem}\n"
    ".cards li{padding:.4rem .5rem;font-size:.78rem}\n"
    ".cards b{font-size:1.5rem}\n"
    "th,td{padding-right:.6rem}}\n"
    "@media print{\n"
    "@page{margin:14mm}\n"
    "html{font-size:10pt}\n"
    "body{max-width:none;padding:0}\n"
    "nav,.filter{display:none}\n"
    "h2,h3,figcaption,figcaption+.soft{break-after:avoid}\n"
    "svg.plot,tr,.cards li,.row{break-inside:avoid}\n"
    ".row{grid-template-columns:17rem minmax(0,1fr)}\n"
    ".beside{display:block}\n"
    "svg.plot{max-width:11cm;max-height:21cm}\n"
    "table{font-size:7.5pt}\n"
    "details:not([open]){display:none}\n"
    "summary{color:var(--soft)}\n"
    ".scroll{overflow:visible}}\n",
    NULL};

/* Colours are named once; series and verdicts keep theirs throughout the page. Every text has a
 * contrast of at least 4.5 : 1 with its background. */
static const struct {
    const char *name, *light, *dark, *paper;
} colours[] = {
    {"bg", "#fff", "#13171c", "#fff"},           {"fg", "#1c2127", "#e4e9ee", "#000"},
    {"soft", "#57606a", "#a0abb6", "#444"},      {"line", "#d3d9e0", "#343b43", "#bbb"},
    {"grid", "#e4e8ed", "#272d34", "#ddd"},      {"tint", "#f5f7f9", "#1a1f26", "#fff"},
    {"s0", "#0a58a8", "#6cb2ff", "#0a58a8"},     {"s1", "#b1480a", "#f2a065", "#b1480a"},
    {"s2", "#6a3fb5", "#bda0f5", "#6a3fb5"},     {"s3", "#176f33", "#68d082", "#176f33"},
    {"s4", "#a0185c", "#f58abf", "#a0185c"},     {"s5", "#7a5900", "#e2b84a", "#7a5900"},
    {"s6", "#0b6d78", "#5fcbd6", "#0b6d78"},     {"s7", "#57606a", "#a0abb6", "#57606a"},
    {"faster", "#176f33", "#68d082", "#176f33"}, {"slower", "#b3201f", "#ff8f87", "#b3201f"},
    {"same", "#57606a", "#a0abb6", "#444"},      {"ambiguous", "#7a5900", "#e2b84a", "#7a5900"},
};

enum { COLOURS = sizeof colours / sizeof colours[0] };

static const char *colour(size_t i, lab_theme theme) {
    return theme == LAB_THEME_LIGHT  ? colours[i].light
           : theme == LAB_THEME_DARK ? colours[i].dark
                                     : colours[i].paper;
}

static void put_root(FILE *out, lab_theme theme) {
    fprintf(out, ":root{color-scheme:%s", theme == LAB_THEME_DARK ? "dark" : "light");
    for (size_t i = 0; i < COLOURS; i++)
        fprintf(out, ";--%s:%s", colours[i].name, colour(i, theme));
    fputs("}", out);
}

void lab_page_style(FILE *out) {
    put_root(out, LAB_THEME_LIGHT);
    fputs("\n@media (prefers-color-scheme:dark){\n", out);
    put_root(out, LAB_THEME_DARK);
    fputs("}\n@media print{\n", out);
    put_root(out, LAB_THEME_PAPER);
    fputs("}\n", out);
    for (size_t i = 0; rules[i]; i++)
        fputs(rules[i], out);
}

/* The style of a separate picture, with colours instead of variables, which not every SVG
 * viewer supports. */
static const char picture[] =
    "text{fill:--fg;font:11px system-ui,'DejaVu Sans',sans-serif}\n"
    ".tick,.axis,.side{fill:--soft;font-size:10.5px}\n"
    ".title{font-size:14px;font-weight:600}\n"
    ".panel{font-size:12px;font-weight:600}\n"
    ".row,.value{font:11px ui-monospace,Menlo,'DejaVu Sans Mono',monospace}\n"
    ".side{paint-order:stroke;stroke:--bg;stroke-width:4px;stroke-linejoin:round}\n"
    ".page{fill:--bg}\n.grid{stroke:--grid;fill:none}\n"
    ".even,.roof{stroke:--fg;fill:none;stroke-width:1.25}\n"
    ".seen{stroke-dasharray:4 3;stroke:--soft}\n"
    ".line{fill:none;stroke:currentColor;stroke-width:1.5}\n.line.s0{stroke-width:2.5}\n"
    ".span{fill:none;stroke:currentColor;stroke-width:5;opacity:.35}\n"
    ".mark{fill:currentColor;stroke:currentColor;stroke-width:1}\n"
    ".s0{color:--s0}\n.s1{color:--s1}\n.s2{color:--s2}\n.s3{color:--s3}\n.s4{color:--s4}\n"
    ".s5{color:--s5}.s6{color:--s6}.s7{color:--s7}.s8{color:--s1}.s9{color:--s2}\n"
    ".s10{color:--s3}.s11{color:--s4}.s12{color:--s5}.s13{color:--s6}.s14{color:--s0}\n"
    ".s15{color:--s0}.s16{color:--s0}.s17{color:--s0}.s18{color:--s0}.s19{color:--s1}\n"
    ".s20{color:--s2}.s21{color:--s3}.s22{color:--s4}.s23{color:--s5}\n"
    ".mark.s8,.mark.s9,.mark.s10,.mark.s11,.mark.s12,.mark.s13,.mark.s14,.mark.s15,\n"
    ".mark.s16,.mark.s17,.mark.s18,.mark.s19,.mark.s20,.mark.s21,.mark.s22,.mark.s23{fill:--bg;"
    "stroke-width:1.5}\n"
    ".whole{fill:--s0}\n.gain{fill:--faster}\n.cost{fill:--slower}\n"
    ".whisker{stroke:--fg;fill:none}\n";

/* The colour whose name begins at `text`; the longest match: s11 is not s1. */
static size_t colour_at(const char *text, size_t *length) {
    *length = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789");
    for (size_t i = 0; i < COLOURS; i++)
        if (strlen(colours[i].name) == *length && strncmp(colours[i].name, text, *length) == 0)
            return i;
    return 0;
}

void lab_picture_style(FILE *out, lab_theme theme) {
    for (const char *at = picture; *at;) {
        const char *name = strstr(at, "--");
        const size_t before = name ? (size_t)(name - at) : strlen(at);
        fwrite(at, 1, before, out);
        at += before;
        if (name) {
            size_t length;
            fputs(colour(colour_at(name + 2, &length), theme), out);
            at = name + 2 + length;
        }
    }
}
