#!/usr/bin/env bash
# test_report_page.sh: the page of a report in a real browser: no complaint on its console, every plot drawn, on a phone and a
# desktop, light and dark, and on paper.
#
#   BUILD=build tests/browser/test_report_page.sh [FOLDER]    leaves the pictures in FOLDER, to be looked at
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/../cli/common.sh"

pictures=${1:-$BUILD/report_pictures}
mkdir -p "$pictures"
pictures=$(cd "$pictures" && pwd)
chromium=$(command -v chromium) || { fail 'a browser' 'chromium is needed'; finish; }

# browse PAGE FLAG...: the browser on one page; what it says, the page's console included, comes out.
browse() {
    local page=$1
    shift
    timeout 60 "$chromium" --headless --no-sandbox --disable-gpu --no-first-run --disable-extensions --disable-dev-shm-usage \
        --disable-background-networking --hide-scrollbars --user-data-dir="$scratch/profile" --enable-logging=stderr --v=0 \
        --virtual-time-budget=2000 "$@" "file://$page" 2>&1
}

# quiet NAME FILE: nothing in it was said by the page's console.
quiet() {
    if grep -q 'CONSOLE' "$2"; then
        fail "$1" "$(grep CONSOLE "$2" | head -c 600)"
    else
        pass
    fi
}

attest report "$root/evidence" -o page.html --price-per-hour 3.5 || fail 'the page' 'attest report failed'

# The test can see a complaint: a page with the same policy, and a script.
sed 's|</main>|<script>document.title = "run"</script></main>|' page.html >script.html
browse "$scratch/script.html" --dump-dom >script.out
check 'a script is refused, and the console says so' bash -c \
    "grep -q 'CONSOLE.*Content Security Policy' script.out && ! grep -q '<title>run' script.out"

browse "$scratch/page.html" --dump-dom >dom.out
quiet 'no complaint on the console' dom.out
check 'the whole page was read' grep -q '</html>' dom.out
check 'every plot is there' python3 - page.html dom.out <<'END'
import re, sys
written, read = (open(name).read() for name in sys.argv[1:])
count = lambda text, pattern: len(re.findall(pattern, text))
assert count(read, '<svg class="plot"') == count(written, '<svg class="plot"') >= 10
for part in ('class="mark ', 'class="span ', 'class="roof', "<table", '<section id="'):
    assert count(read, part) == count(written, part) > 0, part
assert "parsererror" not in read
END

# A phone is narrower than the narrowest window of the browser: the page is put into a frame of its width.
frame() { # frame WIDTH HEIGHT: a page that shows the report so wide
    printf '<!DOCTYPE html><html><body style="margin:0"><iframe src="page.html" width="%d" height="%d" style="border:0"></iframe></body></html>' "$1" "$2"
}
frame 360 2000 >phone.html
cp page.html desktop.html

# A picture of a page that is not one colour, and in which the dark theme is dark.
for theme in light dark; do
    scheme=$([[ $theme == dark ]] && echo 0 || echo 1)
    for size in phone:360:2000 desktop:1280:2000; do
        IFS=: read -r name width height <<<"$size"
        picture=$pictures/$name-$theme.png
        rm -f "$picture"
        browse "$scratch/$name.html" --window-size="$width,$height" --screenshot="$picture" \
            --blink-settings="preferredColorScheme=$scheme" >"$name-$theme.out"
        quiet "$name, $theme: no complaint" "$name-$theme.out"
        check "$name, $theme: a picture" python3 "$tests_folder/../browser/picture.py" "$picture" "$width" "$theme"
    done
done

browse "$scratch/page.html" --no-pdf-header-footer --print-to-pdf="$pictures/report.pdf" >pdf.out
quiet 'on paper: no complaint' pdf.out
check 'on paper: a document of several pages' python3 - "$pictures/report.pdf" <<'END'
import re, sys
data = open(sys.argv[1], "rb").read()
assert data.startswith(b"%PDF-") and b"%%EOF" in data[-64:]
pages = max(int(count) for count in re.findall(rb"/Count (\d+)", data))
assert 5 <= pages <= 120, pages
END
finish
