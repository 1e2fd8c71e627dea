#!/usr/bin/env bash
# test_interrupt.sh: Ctrl-C while attest verifies or certifies: finished work is kept, and the program says so. (bench:
# test_bench.sh)
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"

# More than any machine verifies in two seconds.
mapfile -t endless < <(for i in $(seq 3000); do echo "b1h8s512d$((i % 3 * 8 + 64)),f32"; done)
check 'verify, interrupted: exit 130' test "$(python3 "$tests_folder/interrupt.py" 1 2 120 verify "${endless[@]}" --device cpu --jobs 2 --json part.json)" = 130
check 'it says so' grep -qE 'interrupted: [0-9]+ of 3000 answers were verified, and are kept in part.json' int.err
check 'what is kept is what it says' python3 - <<'END'
import json, re
document = json.load(open("part.json"))
count = int(re.search(r"interrupted: (\d+) of", open("int.err").read()).group(1))
assert document["interrupted"] is True and len(document["results"]) == count < 3000, count
assert all(row["outcome"] == "pass" and row["kernel"] for row in document["results"])
END
rm -f part.json
# One problem that no machine finishes between the two signals: the first alone would end the program as soon as it is finished.
check 'interrupted twice: it stops at once' test "$(python3 "$tests_folder/interrupt.py" 2 1 120 verify b1h16s16384d128,f32 --device cpu --jobs 1 --json part.json)" = -2
check 'and leaves nothing' test ! -e part.json
expect 'a whole run' 0 -- verify b1h2s64d16 --device cpu --json whole.json
check 'does not mention it' json whole.json '"interrupted" not in d'

unset "${!ATTEST_LIB@}" # they may not be set where kernels are certified
check 'certify, interrupted: exit 130' test "$(python3 "$tests_folder/interrupt.py" 1 3 120 certify --device cpu -o statements --json certified.json)" = 130
check 'its statements are those of finished kernels' python3 - <<'END'
import json, os, re
said = re.search(r"interrupted: (\d+) of (\d+) were finished; their statements are kept in statements", open("int.err").read())
assert said and int(said.group(1)) < int(said.group(2)), open("int.err").read()
files = [name for name in os.listdir("statements")] if os.path.isdir("statements") else []
document = json.load(open("certified.json"))
assert document["interrupted"] is True and len(document["results"]) == int(said.group(1))
assert sorted(files) == sorted(row["kernel"] + ".json" for row in document["results"] if row["outcome"] == "certified"), files
END
finish
