#!/usr/bin/env bash
# test_certify.sh: statements made on this CPU, checked, tampered with, signed; what info says of them.
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"
unset "${!ATTEST_LIB@}" ATTEST_EVIDENCE # they may not be set where kernels are certified

echo b1h2s40d32,f32 >checked.txt
echo b1h2s64d32,f32 >timed.txt
echo b4h8s1sk200d64,f32 | tee -a checked.txt >>timed.txt
quick=(--device cpu --suite ./checked.txt --timed ./timed.txt --min-samples 3 --max-samples 3 --seconds 0)
mkdir ev
here=ev/here/attestations
file=$here/decode_cpu_portable.json

# Making statements.
expect 'certify two kernels' 0 out='^2 of 2 certified in [0-9]+ s, in ev/here/attestations, unsigned$' -- certify "${quick[@]}" --kernel '*_portable' -o $here --json made.json
check 'certify, the document' json made.json '[r["outcome"] for r in d["results"]] == ["certified"] * 2'
check 'a statement of in-toto' json $file 'd["_type"] == "https://in-toto.io/Statement/v1" and d["predicateType"] == "urn:attest:attention-kernel:v1"'
check 'its subject' json $file 'd["subject"][0]["name"] == "decode_cpu_portable.source" and len(d["subject"][0]["digest"]["sha256"]) == 64'
check 'its predicate' json $file 'all(d["predicate"][k] for k in ("kernel", "made", "attest", "machine", "compiler", "harness", "suites", "verified", "timed"))'
check 'its samples and errors' json $file 'len(d["predicate"]["timed"][0]["samples_ns"]) == 3 and d["predicate"]["verified"][0]["verify"]["error_o"]["kernel"] <= d["predicate"]["verified"][0]["verify"]["error_o"]["bar"]'
check 'the harness names itself' json $file 'all(len(x) == 64 for x in d["predicate"]["harness"].values())'
check 'the program that ran' [ "$(sha256sum <"$BUILD/attest" | cut -d' ' -f1)" = "$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["predicate"]["harness"]["program_sha256"])' $file)" ]
expect 'without -o, by the name of the device' 0 out='certified in [0-9]+ s, in evidence/.*/attestations' -- certify "${quick[@]}" --kernel decode_cpu_portable
check 'and is there' test -f evidence/*/attestations/decode_cpu_portable.json
expect 'no kernel matches' 2 err='--kernel fwd_none: no production kernel' -- certify "${quick[@]}" --kernel fwd_none -o $here
expect 'a suite that is not there' 2 err='no suite' -- certify --device cpu --suite none -o $here
expect 'a folder that cannot be' 3 err='-o /dev/null/x' -- certify "${quick[@]}" -o /dev/null/x
expect 'no GPU' 3 err='' -- certify --device cuda:7 -o $here
echo b1h2s64d32,fp16,softcap=20 >other.txt
expect 'a suite without a problem for it' 3 out='decode_cpu_portable .*not certified: it serves no problem of the suite' -- certify --device cpu --suite ./other.txt --timed ./timed.txt --kernel decode_cpu_portable -o none
check 'no statement then' test ! -e none/decode_cpu_portable.json

# Not under variables that put code in, or in the place of code.
for name in CUDA_INJECTION64_PATH NVIDIA_TF32_OVERRIDE ATTEST_LIBCUDA ATTEST_JIT; do
    export $name=1
    expect "refuses under $name" 3 err="^attest certify: $name is set, which .*: unset it" -- certify "${quick[@]}" -o $here
    unset $name
done

# The check. Statements of a few problems are partial; for what follows they claim to be of the usual suites.
expect 'of other suites' 0 out='^here: 2 kernels, 2 partial' -- certify --check --evidence ev
usual() { # usual: what was certified claims to be of the usual suites
    sed -i 's,"./checked.txt","rows\, edge",; s,"./timed.txt","certify_cpu",' $here/*_portable.json
}
echo 'here portable partial' >ev/required.txt
expect 'of other suites, which will do' 0 out='^2 checked, 0 failed$' -- certify --check --evidence ev
echo 'here portable' >ev/required.txt
expect 'of other suites, which will not do' 1 out='^2 checked, 2 failed$' -- certify --check --evidence ev
echo 'here portable some' >ev/required.txt
expect 'a third word that means nothing' 2 err='required.txt:1: a device and what it runs are wanted' -- certify --check --evidence ev
rm ev/required.txt
usual
expect 'all is current' 0 out='^here: 2 kernels, 2 current; unsigned: this shows what was measured, not by whom$' -- certify --check --evidence ev
ATTEST_EVIDENCE=ev expect 'by the environment' 0 out='here' -- certify --check --json check.json
check 'check, the document' json check.json 'all(k["standing"] == "current" and k["signature"] == "unsigned" and not k["fails"] for k in d["kernels"])'
expect 'info shows it' 0 out='^decode_cpu_portable .* here: current' -- info --evidence ev --json info.json
check 'info, the document' json info.json '[k["evidence"][0]["standing"] for k in d["kernels"] if k["id"] == "fwd_cpu_portable"] == ["current"]'
mkdir empty
expect 'nothing required, nothing there' 0 out='^no evidence is here, and none is required$' -- certify --check --evidence empty
expect 'info without evidence' 0 out='no evidence of the kernels is here' -- info --evidence empty
expect 'no such folder' 2 err='nowhere' -- certify --check --evidence nowhere
expect 'no such folder for info' 2 err='nowhere' -- info --evidence nowhere

echo 'here portable' >ev/required.txt
expect 'what is required is there' 0 out='^2 checked, 0 failed$' -- certify --check --evidence ev
echo 'there sm_90' >>ev/required.txt
expect 'what is required is missing' 1 out='^FAIL there +decode_sm80_f16_d64_[a-z0-9]+: missing: ev/there/attestations has no' -- certify --check --evidence ev
echo 'here' >ev/required.txt
expect 'a list that cannot be read' 2 err='required.txt:1: a device and what it runs are wanted' -- certify --check --evidence ev
echo 'here portable' >ev/required.txt

cp $file kept.json
sed -i 's/\("sha256": "\)..../\10000/' $file
expect 'other code is stale, and fails' 1 out='^FAIL here +decode_cpu_portable: stale: its sources have changed since 20' -- certify --check --evidence ev
expect 'info says stale' 0 out='^decode_cpu_portable .* here: stale' -- info --evidence ev
cp kept.json $file
sed -i 's/"median_ns": [0-9.]*/"median_ns": 1.5/' $file
expect 'a changed number fails, required or not' 1 out='median_ns: is not the median of the samples' -- certify --check --evidence ev
rm $file
expect 'a file that is gone fails' 1 out='^FAIL here +decode_cpu_portable: missing' -- certify --check --evidence ev
cp kept.json $file
cp kept.json $here/fwd_of_old.json
expect 'a file under another name' 1 out='fwd_of_old: stale: .*kernel: is of decode_cpu_portable' -- certify --check --evidence ev
rm $here/fwd_of_old.json

# A plug-in goes the same way.
check 'the example plug-in is built' "${CC:-cc}" -O2 -shared -fPIC -I"$root/include" -o plain_peer.so "$root/examples/peer/plain_peer.c" -lm
expect 'certify a plug-in' 0 out='^ 1/1 peer-plain +2 verified +2 timed.* certified$' -- certify "${quick[@]}" --peer ./plain_peer.so -o $here
check 'its subject is its file' json $here/peer-plain.json "d['subject'] == [{'name': 'peer-plain.library', 'digest': {'sha256': '$(sha256sum <plain_peer.so | cut -d' ' -f1)'}}] and d['predicate']['peer']['name'] == 'plain'"
expect 'the check notes it' 0 out='^note here +peer-plain: other compiler: a plug-in' -- certify --check --evidence ev
expect 'a plug-in and a kernel' 0 out='^2 of 2 certified' -- certify "${quick[@]}" --peer ./plain_peer.so --kernel decode_cpu_portable -o both
expect 'no such plug-in' 2 err='--peer' -- certify "${quick[@]}" --peer ./absent.so -o $here
rm $here/peer-plain.json

# Signatures.
rm ev/required.txt
ssh-keygen -q -t ed25519 -N '' -C '' -f key
ssh-keygen -q -t ed25519 -N '' -C '' -f other
echo "lab@example.org $(cat key.pub)" >signers
echo "lab@example.org $(cat other.pub)" >strangers
expect 'certify and sign' 0 out='signed$' -- certify "${quick[@]}" --kernel decode_cpu_portable --sign key -o $here
check 'the signature is there' test -f $file.sig
expect 'signed again' 0 -- certify "${quick[@]}" --kernel decode_cpu_portable --sign key -o $here
expect 'signed, and said so' 0 out='; 1 of 2 files signed$' -- certify --check --evidence ev --json check.json
check 'not checked without signers' json check.json 'sorted(k["signature"] for k in d["kernels"]) == ["signed, not checked", "unsigned"]'
expect 'the signature holds' 0 -- certify --check --evidence ev --signers signers --json check.json
check 'and by whom' json check.json 'sorted(k["signature"] for k in d["kernels"]) == ["signed by lab@example.org", "unsigned"]'
expect 'of a key that is not allowed' 1 out='by no signer of strangers' -- certify --check --evidence ev --signers strangers
cp $file kept.json
sed -i 's/"seed": 0/"seed": 1/' $file
expect 'a changed file under a signature' 1 out='its signature by lab@example.org does not hold' -- certify --check --evidence ev --signers signers
cp kept.json $file
echo nonsense >$file.sig
expect 'a signature that is none' 1 out='signature' -- certify --check --evidence ev --signers signers
expect 'no such key' 3 err='--sign: .*cannot be signed with absent' -- certify "${quick[@]}" --kernel decode_cpu_portable --sign absent -o $here
expect 'signed for the checks that follow' 0 -- certify "${quick[@]}" --kernel decode_cpu_portable --sign key -o $here
expect 'certified again, unsigned' 0 -- certify "${quick[@]}" --kernel decode_cpu_portable -o $here
check 'leaves no signature of other bytes' test ! -e $file.sig
expect 'and signed once more' 0 -- certify "${quick[@]}" --kernel decode_cpu_portable --sign key -o $here
program=$(command -v attest)
mkdir bin
PATH=$scratch/bin "$program" certify --check --evidence ev --signers signers >.out 2>.err
check 'without ssh-keygen it is not possible' test $? -eq 3
check 'and names the package' grep -q openssh-client .err
PATH=$scratch/bin "$program" certify "${quick[@]}" --kernel decode_cpu_portable --sign key -o $here >.out 2>.err
check 'nor to sign' test $? -eq 3
finish
