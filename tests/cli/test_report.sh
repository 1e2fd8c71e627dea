#!/usr/bin/env bash
# test_report.sh: reports made by the program: pages that are well formed, reproducible, and consistent with evidence/.
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"

evidence=$root/evidence
# For what does not depend on how much there is: without the files with most samples, whose intervals take the longest.
cp -r "$evidence/h200" few
rm few/{few_heads,self_check_*,ladder_variants,chunk,hopper_sustained,decode_sweep,pages,lengths,before_after_*}.json

expect 'no file' 2 err='expected a file or a folder of results' -- report
expect 'a file that is not there' 2 err='nowhere.json: No such file' -- report nowhere.json
expect 'an unknown format' 2 err='--format pdf: expected html, md or term' -- report x --format pdf
expect 'an invalid price' 2 err='--price-per-hour 0: expected a price' -- report x --price-per-hour 0
expect 'another option of a verb' 2 err='--seed is not an option of this verb' -- report x --seed 1
echo '{"schema": "attest-bench-1", "results": [{"problem": {}}]}' >damaged.json
expect 'a damaged file' 2 err='damaged.json: results\[0\].*problem' -- report damaged.json
echo '{"schema": "sarif-2"}' >foreign.json
expect 'a foreign file' 2 err="foreign.json: schema: a report cannot show 'sarif-2'" -- report foreign.json
mkdir empty
expect 'an empty folder' 2 err='empty: no .json file' -- report empty
expect 'into nowhere' 3 err='/no/such/r.html' -- report few -o /no/such/r.html
check 'stdout full' bash -c "attest report few >/dev/full; ((\$? == 3))"

# The formats: by name, by file suffix, and the terminal if there is no file.
expect 'for the terminal' 0 out='faster, .* slower' -- report few
expect 'Markdown' 0 out='^## attest report' -- report "$evidence/h200" --format md
expect 'a page' 0 -- report "$evidence/h200" -o page.html
check 'it says what was written' grep -qE '^wrote page\.html \(html\): [0-9]+ files, [0-9]+ timings, [0-9]+ comparisons$' .out
expect 'Markdown by its name' 0 out='^wrote page.md \(md\): ' -- report "$evidence/h200" -o page.md
expect 'text by its name' 0 -- report few -o page.txt
check 'text is text' grep -q 'faster, .* slower' page.txt
expect 'an ending that says nothing' 2 err='-o page.pdf: expected \.html, \.md or \.txt, or --format' -- report few -o page.pdf
expect 'no ending' 2 err='-o page: ' -- report few -o page
check 'nothing is written then' test ! -e page.pdf
expect 'any name with a format' 0 -- report "$evidence/h200" -o page.out --format html
check 'the same page' cmp page.html page.out
expect 'all of the evidence' 0 -- report "$evidence" -o all.html --price-per-hour 3.5
check 'page.md is Markdown' grep -q '^| device | against |' page.md
check 'a price is used' grep -q 'cost at 3.50 an hour' all.html
check 'no price, no cost' bash -c '! grep -q "cost at" page.html'
sed -n '/<summary>Times/,/<\/details>/p' page.md >times.md
check 'no more times than it holds' grep -qE '^and [0-9]+ more\.$' times.md
check 'Markdown is small' test "$(wc -c <page.md)" -lt 60000 # what a comment of a pull request may hold is 65536

# The output of bench can be shown; its times are in the table.
attest bench b1h2s64d16 b1h2s32d16,causal --seconds 0 --min-samples 3 --json bench.json >/dev/null 2>&1
expect 'a fresh bench' 0 out='microseconds per call' -- report bench.json
expect 'a fresh bench as a page' 0 -- report bench.json -o bench.html
check 'no roofline without limits' bash -c '! grep -q "id=.roofline" bench.html'

# The same files give the same report, in any folder, at any time and in any locale.
cp -r "$evidence/h200" h200
check 'from a copy' attest report h200/ -o copy.html
check 'it is the same' cmp page.html copy.html
check 'at another time' env TZ=Asia/Tokyo LC_ALL=C.UTF-8 COLUMNS=200 attest report "$evidence/h200" -o again.html
check 'it is the same again' cmp page.html again.html

# Every line of a terminal report fits the width; a pipe gets no colour, a terminal does unless told otherwise.
for columns in 60 80 132; do
    COLUMNS=$columns attest report few >"term$columns.txt"
    # shellcheck disable=SC2016 # $0 is awk's
    check "$columns columns" awk -v most="$columns" \
        '/^against/ { table = 1 } /^$/ { table = 0 } !table && length($0) > most { print; bad = 1 } END { exit bad }' "term$columns.txt"
done
check 'no colour in a pipe' bash -c "! grep -q \$'\\033' term80.txt"
if script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
    TERM=xterm script -qec "attest report few" /dev/null >color.txt </dev/null
    check 'colour on a terminal' grep -q $'\033\\[1;' color.txt
    TERM=xterm NO_COLOR=1 script -qec "attest report few" /dev/null >plain.txt </dev/null
    check 'NO_COLOR' bash -c "grep -q faster plain.txt && ! grep -q \$'\\033\\[1;' plain.txt"
fi

# One plot as a file, for a README or a paper.
expect 'a plot' 0 out='^wrote plot.svg \(svg\): ' -- report few --svg rates-forward -o plot.svg
expect 'a dark one' 0 -- report few --svg rates-forward --dark -o dark.svg
check 'it is another' bash -c '! cmp -s plot.svg dark.svg'
expect 'two panels' 0 -- report few --svg rates-forward-h16d128-bf16-causal,rates-backward-h16d128-bf16-causal -o two.svg
check 'pictures are well formed, sized and closed' python3 - plot.svg dark.svg two.svg <<'END'
import sys, xml.etree.ElementTree as tree
for path in sys.argv[1:]:
    root = tree.parse(path).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg" and float(root.get("width")) > 300 and float(root.get("height")) > 200
    text = open(path).read()
    assert "href" not in text and "<script" not in text and "var(" not in text and "url(" not in text
    names = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"attest", "cuDNN", "FlashAttention-3"} <= set(names), names
    assert text.count('class="panel"') == (2 if path == "two.svg" else 4)
END
expect 'the names of plots' 0 out='^rates-forward$' -- report few --svg list
check 'each is a plot' bash -c 'while read -r name; do attest report "$0" --svg "$name" >/dev/null || exit 1; done < <(grep -E "^(roofline|speeds-forward|ladder|ablation|history)$" .out)' few
expect 'no such plot' 2 err="--svg: there is no plot 'rates-forwrd'; did you mean 'rates-forward'" -- report few --svg rates-forwrd
expect 'a plot has its own format' 2 err='--svg and --format cannot be combined' -- report few --svg roofline --format md
expect 'dark alone' 2 err='--dark is for --svg' -- report few --dark
check 'nothing is written where there is none' bash -c '! attest report "$0" --svg nothing -o none.svg 2>/dev/null && test ! -e none.svg' few

# What a reader sees first: problems, devices, kernels, and the best rival; older kernels separately.
check 'forward beside the best of three' python3 - page.html <<'END'
import re, sys
page = open(sys.argv[1]).read()
head = page[: page.index("<main>")]
assert "<dd>NVIDIA H200</dd>" in head and "kernels of attest" in head
assert "14 of 14 cheating kernels caught</a> by attest 0.1.0 on 2026-11-15" in head, "an audit says whose it is"
against = re.search(r"<dt>against</dt><dd>(.*?)</dd>", head).group(1).split(" · ")
assert len(against) == len(set(against)) and "cuBLAS" in against and not any(name.startswith("attest") for name in against), against
titles = re.findall(r"<h3>(.*?)</h3>", head)
assert len(titles) == len(set(titles)) and not any("_" in title for title in titles), titles
assert re.search(r"<h3>forward</h3>\n<p class=\"soft\">24 problems.*?\n<b>1\.\d\d×</b>\n<p class=\"soft\">the speed of the best of "
                 r"cuDNN, FlashAttention-2 and FlashAttention-3", head)
losses = page[page.index('<section id="losses">') : page.index('<section id="speeds">')]
assert "bwd_sm90_" in losses and "fwd_sm80_" not in losses, "losses of what serves, by kernel"
rivals, itself = losses.split("<h3>attest against itself</h3>")
assert "<td>attest, " not in rivals and "<td>attest, one call</td>" in itself and "refused: refused" not in losses
ladder = page[page.index('<section id="ladder">') : page.index('<section id="tiles">')]
assert ladder.count("<figure") == 1 and "h200/ladder.json</figcaption>" in ladder, "only rungs"
for section in page.split("<section id=")[1:]:
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", section)
    assert len(captions) == len(set(captions)), "no two figures of a section have one caption"
assert not re.search(r">\d+M</text>", page[page.index('id="plot-rates-experts"') : page.index('<section id="losses">')])
older = page[page.index('<section id="older">') : page.index('<section id="measurement">')]
assert "fwd_sm80_" in older
END

# The picture of the parts is text, without the marks of Markdown.
check 'no backtick in the picture of the parts' bash -c '! grep -q "\`" "$0"/parts-*.svg && grep -q ">the program attest<" "$0"/parts-dark.svg' "$root/docs/pictures"

# The pages are well-formed XML, load nothing, run nothing foreign, and every id is unique.
check 'pages are well formed and closed' python3 "$tests_folder/page.py" page.html all.html bench.html
finish
