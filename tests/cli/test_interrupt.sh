#!/usr/bin/env bash
# test_interrupt.sh: Ctrl-C while attest verifies, certifies, audits or ablates: finished work is kept, and the program says
# so. (bench: test_bench.sh)
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

# A problem on which a saboteur takes a second or so.
check 'audit, interrupted: exit 130' test "$(python3 "$tests_folder/interrupt.py" 1 4 120 audit b1h16s1024d64,fp16,causal --device cpu --threads 1 --json audit.json)" = 130
check 'what is kept is what was audited' python3 - <<'END'
import json, re
said = re.search(r"interrupted: (\d+) of (\d+) subjects were audited, and are kept in audit.json", open("int.err").read())
document, table = json.load(open("audit.json")), open("int.out").read().split("\n\n")[0].splitlines()[2:]
assert said and int(said[1]) < int(said[2]) == 37, open("int.err").read()
assert document["interrupted"] is True and len(document["results"]) == len(table) == int(said[1])
assert {row["outcome"] for row in document["results"]} <= {"caught", "passed", "left out"}
END

# On a fake GPU, a round of all variants takes no time: the run ends long after the signal.
use_images
fakes=$BUILD/tests/fake_cuda
export ATTEST_LIBCUDA=$fakes/libfake_cuda.so ATTEST_LIBNVRTC=$fakes/libfake_nvrtc.so ATTEST_LIBCUBLAS=/nonexistent/libcublas.so
export ATTEST_ALLOW_UNATTESTED=1 XDG_CACHE_HOME=$scratch/cache FAKE_CUDA_COMPUTES=1 FAKE_CUDA_CC=80
long=(--min-samples 1000000 --max-samples 1000000)
check 'ablate, interrupted: exit 130' test "$(python3 "$tests_folder/interrupt.py" 1 4 120 ablate b1h1s17d16 b1h1s18d16 "${long[@]}")" = 130
check 'it shows what was measured' grep -qE '^all on +pass +[0-9.]+ +\[' int.out
check 'judges nothing' bash -c '! grep -qE "SLOWER|FASTER|SAME|AMBIGUOUS" int.out'
check 'and begins no other problem' test "$(grep -c '^problem ' int.out)" -eq 1
check 'ablate, with a document: exit 130' test "$(python3 "$tests_folder/interrupt.py" 1 4 120 ablate b1h1s17d16 "${long[@]}" --json ablation.json)" = 130
check 'what is kept is what it says' python3 - <<'END'
import json, re
said = re.search(r"interrupted: (\d+) of \1 variants were measured, and are kept in ablation.json", open("int.err").read())
document = json.load(open("ablation.json"))
assert said and document["interrupted"] is True and len(document["variants"]) == int(said[1]), open("int.err").read()
assert all(v["samples_ns"] and "contribution" not in v for v in document["variants"])
END
expect 'a report of it' 0 -- report ablation.json
use_shipped
unset ATTEST_ALLOW_UNATTESTED XDG_CACHE_HOME "${!FAKE_CUDA@}"
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
