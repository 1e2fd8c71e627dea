#!/usr/bin/env bash
# test_report.sh: reports made by the program: pages that are well formed, the same every time, and true to evidence/.
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"

evidence=$root/evidence

expect 'no file' 2 err='a file or a folder of results is wanted' -- report
expect 'a file that is not there' 2 err='nowhere.json: No such file' -- report nowhere.json
expect 'an unknown format' 2 err='--format pdf: html, md or term' -- report x --format pdf
expect 'a price that is none' 2 err='--price-per-hour 0: a price' -- report x --price-per-hour 0
expect 'another option of a verb' 2 err='--seed is not an option of this verb' -- report x --seed 1
echo '{"schema": "attest-bench-1", "results": [{"problem": {}}]}' >damaged.json
expect 'a damaged file' 2 err='damaged.json: results\[0\].*problem' -- report damaged.json
echo '{"schema": "sarif-2"}' >foreign.json
expect 'a foreign file' 2 err="foreign.json: schema: a report cannot show 'sarif-2'" -- report foreign.json
mkdir empty
expect 'an empty folder' 2 err='empty: no .json file' -- report empty
expect 'into nowhere' 3 err='/no/such/r.html' -- report "$evidence/h200" -o /no/such/r.html
check 'stdout full' bash -c "attest report '$evidence/h200' >/dev/full; ((\$? == 3))"

# The formats: by name, by the end of the file, and the terminal where there is no file.
expect 'for the terminal' 0 out='faster, .* slower' -- report "$evidence/h200"
expect 'Markdown' 0 out='^## attest report' -- report "$evidence/h200" --format md
expect 'a page' 0 -- report "$evidence/h200" -o page.html
check 'it says what was written' grep -qE '^wrote page\.html \(html\): [0-9]+ files, [0-9]+ timings, [0-9]+ comparisons$' .out
expect 'Markdown by its name' 0 out='^wrote page.md \(md\): ' -- report "$evidence/h200" -o page.md
expect 'text by its name' 0 -- report "$evidence/h200" -o page.txt
check 'text is text' grep -q 'faster, .* slower' page.txt
expect 'an ending that says nothing' 2 err='-o page.pdf: \.html, \.md or \.txt is wanted, or --format' -- report "$evidence/h200" -o page.pdf
expect 'no ending' 2 err='-o page: ' -- report "$evidence/h200" -o page
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

# What bench writes can be shown; its times are in the table.
attest bench b1h2s64d16 b1h2s32d16,causal --seconds 0 --min-samples 3 --json bench.json >/dev/null 2>&1
expect 'a fresh bench' 0 out='microseconds a call' -- report bench.json
expect 'a fresh bench as a page' 0 -- report bench.json -o bench.html
check 'no roofline without limits' grep -q 'no limits are known' bench.html

# The same files give the same report, wherever they lie and whatever the time or the language.
cp -r "$evidence/h200" h200
check 'from a copy' attest report h200/ -o copy.html
check 'it is the same' cmp page.html copy.html
check 'at another time' env TZ=Asia/Tokyo LC_ALL=C.UTF-8 COLUMNS=200 attest report "$evidence/h200" -o again.html
check 'it is the same again' cmp page.html again.html

# Every line of a terminal report keeps to the width; a pipe gets no colour, a terminal does unless told otherwise.
for columns in 60 80 132; do
    COLUMNS=$columns attest report "$evidence/h200" >"term$columns.txt"
    # shellcheck disable=SC2016 # $0 is awk's
    check "$columns columns" awk -v most="$columns" \
        '/^against/ { table = 1 } /^$/ { table = 0 } !table && length($0) > most { print; bad = 1 } END { exit bad }' "term$columns.txt"
done
check 'no colour in a pipe' bash -c "! grep -q \$'\\033' term80.txt"
if script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
    TERM=xterm script -qec "attest report $evidence/h200" /dev/null >color.txt </dev/null
    check 'colour on a terminal' grep -q $'\033\\[1;' color.txt
    TERM=xterm NO_COLOR=1 script -qec "attest report $evidence/h200" /dev/null >plain.txt </dev/null
    check 'NO_COLOR' bash -c "grep -q faster plain.txt && ! grep -q \$'\\033\\[1;' plain.txt"
fi

# The pages are well-formed XML, load nothing, run nothing, and no name in them is used twice.
check 'pages are well formed and closed' python3 "$tests_folder/page.py" page.html all.html bench.html
finish
