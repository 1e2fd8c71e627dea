#!/usr/bin/env bash
# test_certify.sh: statements made on this CPU, checked, tampered with, signed; and what info says about them.
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"
unset "${!ATTEST_LIB@}" ATTEST_EVIDENCE # they may not be set where kernels are certified

# Suites of this test under the usual names, so that the statements made here are not partial.
mkdir suites
echo b1h2s40d32,f32 >suites/rows.txt
echo b2h2s33d16,f32,causal >suites/edge.txt
echo b1h2s64d32,f32 >suites/certify_cpu.txt
echo b4h8s1sk200d64,f32 | tee -a suites/rows.txt suites/edge.txt >>suites/certify_cpu.txt
printf '%s\n' backward:b1h2s9d8,f32 merge:n3b1h2s9d32,f32 moe:t5e4k2h16i12,f32 | tee -a suites/rows.txt >>suites/certify_cpu.txt
cp suites/edge.txt suites/gpu.txt
cp suites/certify_cpu.txt suites/certify.txt
export ATTEST_SUITES=$scratch/suites
cp suites/rows.txt checked.txt
cp suites/certify_cpu.txt timed.txt
fast=(--device cpu --min-samples 3 --max-samples 3 --seconds 0)
quick=("${fast[@]}" --suite ./checked.txt --timed ./timed.txt)
mkdir ev
touch ev/required.txt
attest certify "${fast[@]}" --kernel decode_cpu_portable >.out 2>&1
place=$(ls evidence) # by the name of this processor
rm -r evidence
here=ev/$place/attestations
file=$here/decode_cpu_portable.json

edit() { # edit FILE STATEMENT: change the document d, p being its predicate
    python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); p = d["predicate"]; exec(sys.argv[2]); json.dump(d, open(sys.argv[1], "w"), indent=1)' "$1" "$2"
}

# Making statements.
expect 'certify five kernels' 0 out='^5 of 5 certified in [0-9]+ s, in ev/.*/attestations, unsigned$' -- certify "${quick[@]}" --kernel '*_portable' -o "$here" --json made.json
check 'certify, the document' json made.json '[r["outcome"] for r in d["results"]] == ["certified"] * 5'
check 'a statement of in-toto' json "$file" 'd["_type"] == "https://in-toto.io/Statement/v1" and d["predicateType"] == "urn:attest:attention-kernel:v2"'
check 'its subject' json "$file" 'd["subject"][0]["name"] == "decode_cpu_portable.source" and len(d["subject"][0]["digest"]["sha256"]) == 64'
check 'its predicate' json "$file" 'all(d["predicate"][k] for k in ("kernel", "made", "attest", "machine", "compiler", "harness", "suites", "verified", "timed"))'
check 'its samples and errors' json "$file" 'len(d["predicate"]["timed"][0]["samples_ns"]) == 3 and d["predicate"]["verified"][0]["verify"]["error_o"]["kernel"] <= d["predicate"]["verified"][0]["verify"]["error_o"]["bar"]'
check 'the harness names itself' json "$file" 'sorted(d["predicate"]["harness"]) == ["clock_sha256", "judge_sha256", "program_sha256"] and all(len(x) == 64 for x in d["predicate"]["harness"].values())'
check 'the program that ran' [ "$(sha256sum <"$BUILD/attest" | cut -d' ' -f1)" = "$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["predicate"]["harness"]["program_sha256"])' "$file")" ]
expect 'without -o, by the name of the device' 0 out='certified in [0-9]+ s, in evidence/.*/attestations' -- certify "${quick[@]}" --kernel decode_cpu_portable
check 'and is there' test -f evidence/*/attestations/decode_cpu_portable.json
for part in 1 2; do
    expect "part $part of two" 0 out='^[23] of [23] certified' -- certify "${quick[@]}" --kernel '*_portable' --part $part/2 -o parts
done
check 'two parts are the whole' test "$(cd parts && echo *)" = "$(cd "$here" && echo *)"
expect 'a part that has no kernel' 2 err='no production kernel of this device matches, or this part has none' -- certify "${quick[@]}" --kernel '*_portable' --part 9/9 -o parts
expect 'an invalid part' 2 err='--part 3/2: expected a part such as 2/3' -- certify "${quick[@]}" --part 3/2 -o parts
expect 'several problems at once' 0 out='^5 of 5 certified' -- certify "${quick[@]}" --kernel '*_portable' --jobs 4 -o jobs
check 'with the same numbers' test "$(python3 -c 'import json, sys; print(*([v["verify"]["error_o"] for v in json.load(open(f))["predicate"]["verified"]] for f in sys.argv[1:]), sep="\n")' "$file" jobs/decode_cpu_portable.json | uniq | wc -l)" -eq 1
expect 'no kernel matches' 2 err='--kernel fwd_none: no production kernel' -- certify "${quick[@]}" --kernel fwd_none -o "$here"
expect 'a suite that is not there' 2 err='no suite' -- certify --device cpu --suite none -o "$here"
expect 'a folder that cannot be' 3 err='-o /dev/null/x' -- certify "${quick[@]}" -o /dev/null/x
expect 'no GPU' 3 err='' -- certify --device cuda:7 -o "$here"
echo b1h2s64d32,fp16,softcap=20 >other.txt
expect 'a suite without a problem for it' 3 out='decode_cpu_portable .*not certified: it serves no problem of the suite' -- certify --device cpu --suite ./other.txt --timed ./timed.txt --kernel decode_cpu_portable -o none
check 'no statement then' test ! -e none/decode_cpu_portable.json

# Refused under variables that inject or replace code.
for name in CUDA_INJECTION64_PATH NVIDIA_TF32_OVERRIDE ATTEST_LIBCUDA ATTEST_JIT; do
    export $name=1
    expect "refuses under $name" 3 err="^attest certify: $name is set, which .*: unset it" -- certify "${quick[@]}" -o "$here"
    unset $name
done

# The check.
expect 'of other suites' 0 out="^$place: [0-9]+ kernels?, .*5 partial" -- certify --check --evidence ev
echo "$place portable partial" >ev/required.txt
expect 'of other suites, which will do' 0 out='^[0-9]+ checked, 0 failed$' -- certify --check --evidence ev
echo "$place portable" >ev/required.txt
expect 'of other suites, which will not do' 1 out='^[0-9]+ checked, 5 failed$' -- certify --check --evidence ev
echo "$place portable some" >ev/required.txt
expect 'a third word that means nothing' 2 err='required.txt:1: expected a device and what it runs' -- certify --check --evidence ev
: >ev/required.txt
expect 'certify by the usual suites' 0 out='^5 of 5 certified' -- certify "${fast[@]}" --kernel '*_portable' -o "$here"
expect 'all is current' 0 out="^$place: 5 kernels, 5 current; unsigned: this shows what was measured, not by whom$" -- certify --check --evidence ev
ATTEST_EVIDENCE=ev expect 'by the environment' 0 out="$place" -- certify --check --json check.json
check 'check, the document' json check.json 'all(k["standing"] == "current" and k["signature"] == "unsigned" and not k["fails"] for k in d["kernels"])'
expect 'info shows it' 0 out="^decode_cpu_portable .* current " -- info --evidence ev --json info.json
check 'this machine comes first, its kernels in full' grep -qE "^this machine, $place: 5 kernels, 5 current; unsigned" .out
check 'no instruction set is taken for a type' bash -c 'attest info --all | grep -oE "^[a-z]+_cpu_[a-z0-9_]+.* yes " | cut -d" " -f1 | sort | cmp - <(grep -oE "^[a-z]+_cpu_[a-z0-9_]+" .out | sort)'
mkdir ev/other && cp -r "$here" ev/other/attestations
expect 'another device does not count here' 0 out="^decode_cpu_portable .* current " -- info --evidence ev
check 'and has one line' grep -qE '^other devices: other 5 ' .out
rm -r ev/other
check 'info, the document' json info.json '[k["evidence"][0]["standing"] for k in d["kernels"] if k["id"] == "fwd_cpu_portable"] == ["current"]'
if attest doctor | grep -q 'built without nvcc'; then
    ATTEST_SUITES= expect 'evidence of GPU kernels that this build has not' 0 out='^other devices: h200 [0-9]+, which this build without nvcc cannot compare;' -- \
        info --evidence "$root/evidence"
    use_images
    check 'and of those that it has' bash -c 'ATTEST_SUITES= attest info --evidence "$1/evidence" | grep -q "^other devices: h200 [0-9]* stale"' bash "$root"
    use_shipped
fi
mkdir empty
expect 'info without evidence' 0 out='no evidence found' -- info --evidence empty
expect 'a folder without required.txt' 1 out='^FAIL required.txt: required.txt: is missing' -- certify --check --evidence empty --json check.json
check 'which the document has' json check.json '[f["name"] for f in d["files"] if f["fails"]] == ["required.txt"]'
touch empty/required.txt
expect 'nothing required, nothing there' 0 out='^no evidence found, and none is required$' -- certify --check --evidence empty
expect 'no such folder' 2 err='nowhere' -- certify --check --evidence nowhere
expect 'no such folder for info' 2 err='nowhere' -- info --evidence nowhere

echo "$place portable" >ev/required.txt
expect 'what is required is there' 0 out='^5 checked, 0 failed$' -- certify --check --evidence ev
echo 'there sm_90' >>ev/required.txt
expect 'what is required is missing' 1 out='^FAIL there +decode_sm80_f16_d64_[a-z0-9]+: missing: there/attestations has no' -- certify --check --evidence ev
echo "$place" >ev/required.txt
expect 'a list that cannot be read' 2 err='required.txt:1: expected a device and what it runs' -- certify --check --evidence ev
echo "$place portable" >ev/required.txt

cp "$file" kept.json
edit "$file" 'd["subject"][0]["digest"]["sha256"] = "0" * 64'
expect 'other code is stale, and fails' 1 out="^FAIL $place +decode_cpu_portable: stale: its sources have changed since 20" -- certify --check --evidence ev
expect 'info says stale' 0 out="^decode_cpu_portable .* stale " -- info --evidence ev
cp kept.json "$file"
sed -i 's/"median_ns": [0-9.]*/"median_ns": 1.5/' "$file"
expect 'a changed number fails, required or not' 1 out='median_ns: is not the median of the samples' -- certify --check --evidence ev
forged() { # forged NAME STATEMENT PATTERN: the statement so changed fails, and the complaint names file and field
    cp kept.json "$file"
    edit "$file" "$2"
    expect "forged: $1" 1 out="^FAIL $place +decode_cpu_portable: stale: ${file#ev/}: $3" -- certify --check --evidence ev
}
forged 'fewer problems verified' 'del p["verified"][1:]' 'predicate.verified: b4h8s1sk200d64,f32 is missing'
forged 'a bar of 1e9' 'p["verified"][0]["verify"]["error_o"]["bar"] = 1e9' 'predicate.verified\[0\].verify.error_o.bar: does not follow'
forged 'a bar from an error that cannot be' 'e = p["verified"][0]["verify"]["error_o"]; e["bar"] += 2e9; e["plain"] += 1e9' 'predicate.verified\[0\].verify.error_o.*'
forged 'a time below its floor' 'p["timed"][0]["floor_ns"] = 1e15' 'predicate.timed\[0\].median_ns: is below the floor'
forged "another kernel's numbers" "q = json.load(open('$here/fwd_cpu_portable.json'))['predicate']; p['verified'] = q['verified']; p['timed'] = q['timed']" 'predicate.verified\[0\].launch.kernel: is fwd_cpu_portable'
forged 'a renamed device' 'p["machine"]["processor"] = "Better 9000"' 'machine: Better 9000 belongs in the folder better-9000-'
for field in harness seed environment role; do
    forged "no $field" "del p['$field']" "predicate.$field.*: is missing"
done
forged 'judged by another harness' 'p["harness"]["judge_sha256"] = "0" * 64' 'harness.judge_sha256: judged by another harness'
forged 'timed by another harness' 'p["harness"]["clock_sha256"] = "0" * 64' 'harness.clock_sha256: timed by another harness'
printf 'clock %064d 2026-11-16 the same clock in other words\n' 0 >ev/harnesses.txt
expect 'which is listed' 0 out=' 5 current' -- certify --check --evidence ev
echo 'clock 00 2026-11-16 why' >ev/harnesses.txt
expect 'a list of harnesses that cannot be read' 2 err='harnesses.txt:1: ' -- certify --check --evidence ev
rm ev/harnesses.txt
rm "$file"
expect 'a file that is gone fails' 1 out="^FAIL $place +decode_cpu_portable: missing" -- certify --check --evidence ev
cp kept.json "$file"
cp kept.json "$here/fwd_of_old.json"
expect 'a file under another name' 1 out='fwd_of_old: stale: .*kernel: is that of decode_cpu_portable' -- certify --check --evidence ev
rm "$here/fwd_of_old.json"

# The same for a plug-in.
check 'the example plug-in is built' "${CC:-cc}" -O2 -shared -fPIC -I"$root/include" -o plain_peer.so "$root/examples/peer/plain_peer.c" -lm
expect 'certify a plug-in' 0 out='^ 1/1 peer-plain +2 verified +2 timed.* certified$' -- certify "${quick[@]}" --peer ./plain_peer.so -o "$here"
check 'its subject is its file' json "$here/peer-plain.json" "d['subject'] == [{'name': 'peer-plain.library', 'digest': {'sha256': '$(sha256sum <plain_peer.so | cut -d' ' -f1)'}}] and d['predicate']['peer']['name'] == 'plain'"
expect 'the check notes it' 0 out="^note $place +peer-plain: other compiler: a plug-in" -- certify --check --evidence ev
expect 'a plug-in and a kernel' 0 out='^2 of 2 certified' -- certify "${quick[@]}" --peer ./plain_peer.so --kernel decode_cpu_portable -o both
check 'a plug-in that computes only when it is watched is built' "${CC:-cc}" -O2 -shared -fPIC -I"$root/include" \
    -I"$root/examples/peer" -DSLY_IMPATIENT -Wno-unused-function -o sly_peer.so "$root/tests/peers/sly_peer.c" -lm
expect 'it is not certified' 1 out='(not all calls of a sample compute|below the floor|remembers answers)' -- \
    certify "${quick[@]}" --peer ./sly_peer.so -o sly
check 'there is no statement about it' test ! -e sly/peer-sly.json
expect 'no such plug-in' 2 err='--peer' -- certify "${quick[@]}" --peer ./absent.so -o "$here"
rm "$here/peer-plain.json"

# Signatures.
: >ev/required.txt
ssh-keygen -q -t ed25519 -N '' -C '' -f key
ssh-keygen -q -t ed25519 -N '' -C '' -f other
echo "lab@example.org $(cat key.pub)" >signers
echo "lab@example.org $(cat other.pub)" >strangers
expect 'certify and sign' 0 out='signed$' -- certify "${fast[@]}" --kernel decode_cpu_portable --sign key -o "$here"
check 'the signature is there' test -f "$file.sig"
expect 'signed again' 0 -- certify "${fast[@]}" --kernel decode_cpu_portable --sign key -o "$here"
expect 'signed, and said so' 0 out='; 1 of 5 files signed$' -- certify --check --evidence ev --json check.json
check 'not checked without signers' json check.json 'sorted(k["signature"] for k in d["kernels"]) == ["signed, not checked"] + ["unsigned"] * 4'
expect 'under --signers an unsigned statement fails' 1 out='fwd_cpu_portable: current: .*fwd_cpu_portable.json: is not signed' -- certify --check --evidence ev --signers signers
expect 'and so does an unsigned list' 1 out='^FAIL required.txt: required.txt: is not signed' -- certify --check --evidence ev --signers signers
expect 'sign the others' 0 -- certify "${fast[@]}" --kernel '[bfm]*_cpu_portable' --sign key -o "$here"
check 'sign the list' ssh-keygen -q -Y sign -f key -n attest ev/required.txt
expect 'every signature holds' 0 out=' 0 failed$' -- certify --check --evidence ev --signers signers --json check.json
echo '# no older clock' >ev/harnesses.txt
expect 'an unsigned list of clocks fails' 1 out='^FAIL harnesses.txt: harnesses.txt: is not signed' -- certify --check --evidence ev --signers signers
rm ev/harnesses.txt
check 'and by whom' json check.json '{k["signature"] for k in d["kernels"]} == {"signed by lab@example.org"}'
expect 'no such file of signers' 2 err='absent: No such file' -- certify --check --evidence ev --signers absent
expect 'nor for info' 2 err='absent: No such file' -- info --evidence ev --signers absent
: >nobody
expect 'a file without signers' 2 err='nobody: has no signers' -- certify --check --evidence ev --signers nobody
mv "$file.sig" kept.sig
expect 'a signature that was deleted' 1 out='decode_cpu_portable.json: is not signed' -- certify --check --evidence ev --signers signers
mv kept.sig "$file.sig"
mv ev/required.txt kept.txt
expect 'a list that was deleted' 1 out='^FAIL required.txt: .*is missing' -- certify --check --evidence ev --signers signers
mv kept.txt ev/required.txt
expect 'of a key that is not allowed' 1 out='is not by a signer of strangers' -- certify --check --evidence ev --signers strangers
cp "$file" kept.json
edit "$file" 'p["seed"] = 1'
expect 'a changed file under a signature' 1 out='its signature by lab@example.org is not valid' -- certify --check --evidence ev --signers signers
cp kept.json "$file"
echo nonsense >"$file.sig"
expect 'an invalid signature' 1 out='signature' -- certify --check --evidence ev --signers signers
expect 'no such key' 3 err='--sign: .*cannot be signed with absent' -- certify "${fast[@]}" --kernel decode_cpu_portable --sign absent -o "$here"
expect 'signed for the checks that follow' 0 -- certify "${fast[@]}" --kernel decode_cpu_portable --sign key -o "$here"
expect 'certified again, unsigned' 0 -- certify "${fast[@]}" --kernel decode_cpu_portable -o "$here"
check 'leaves no signature of other bytes' test ! -e "$file.sig"
expect 'and signed once more' 0 -- certify "${fast[@]}" --kernel decode_cpu_portable --sign key -o "$here"
program=$(command -v attest)
mkdir bin
PATH=$scratch/bin "$program" certify --check --evidence ev --signers signers >.out 2>.err
check 'without ssh-keygen it is not possible' test $? -eq 3
check 'and names the package' grep -q openssh-client .err
PATH=$scratch/bin "$program" certify "${fast[@]}" --kernel decode_cpu_portable --sign key -o "$here" >.out 2>.err
check 'nor to sign' test $? -eq 3
finish
