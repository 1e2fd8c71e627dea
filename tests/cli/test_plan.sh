#!/usr/bin/env bash
# test_plan.sh: attest plan and attest doctor from a user's point of view.
# shellcheck source=tests/cli/common.sh
. "$(dirname "$0")/common.sh"

# ---------------------------------------------------------------------------- plan
use_images
for device in l4 a100 rtx4090 h100 h200 a10; do
    expect "plan for $device" 0 out="^chosen +fwd_sm[89]0_.*f16_d64_" -- plan b1h8s512d64 --device $device --json $device.json
    check "$device: json" json $device.json 'd["schema"] == "attest-plan-1" and d["device"]["from"].endswith("'$device'.json")'
done
check 'the L4 is bound by memory at 7 us' json l4.json \
    'd["results"][0]["floor"]["binds"] == "memory" and abs(d["results"][0]["floor"]["seconds"] - 2097152 / 300e9) < 1e-12'
check 'every tile is there' json l4.json 'len(d["results"][0]["tiles"]) >= 216'
check 'each fits, or names the limit' json l4.json \
    'all(t["fits"] and t["blocks_per_sm"] >= 1 and 0 < t["tail"] <= 1 or t["breaks"] in ("shared memory", "registers") for t in d["results"][0]["tiles"])'
check 'no tile that fits exceeds 99 KiB' json l4.json 'all(t["shared_bytes"] <= 101376 for t in d["results"][0]["tiles"] if t["fits"])'
check 'every rate has a source' json h200.json 'all(r["source"] for r in d["device"]["rates"].values())'
check 'measured rates give a reach' json h200.json 'd["results"][0]["reach"]["seconds"] >= d["results"][0]["floor"]["seconds"]'
check 'the kernels that serve are listed, the chosen one first' json h200.json \
    'd["results"][0]["kernels"][0]["chosen"] and d["results"][0]["kernels"][0]["kernel"] == d["results"][0]["chosen"]["kernel"]'
check 'of times from the selector none is sooner than the chosen one' json h200.json \
    'min(k["predicted_seconds"] for k in d["results"][0]["kernels"] if k["model"] == "selector") == d["results"][0]["chosen"]["predicted_seconds"]'
check 'a kernel without a time has none' json h200.json \
    'all((k["predicted_seconds"] is None) == (k["model"] == "none") for k in d["results"][0]["kernels"])'
check 'the chosen tile of fwd_sm80 and the kernel agree' json l4.json \
    'd["results"][0]["chosen"]["tile"]["predicted_seconds"] == d["results"][0]["chosen"]["predicted_seconds"]'
expect 'Hopper: kernels, not tiles' 0 out='^fwd_sm90_f16_d128_m192n80s3 +m192n80s3w16 .* selector +<- chosen' -- plan b4h16s4096d128,causal --device h200
check 'the tiles of fwd_sm80 are left out' test "$(grep -c 'limited by' .out)" -eq 0
expect 'Hopper: with --all the tiles too' 0 out='^m128n64s2w4 +98304 ' -- plan b4h16s4096d128,causal --device h200 --all
expect 'another Hopper' 0 out='^note +the times .* fitted on an H200' -- plan b4h16s4096d128,causal --device h100
expect 'the one they were fitted on' 0 out='^chosen +fwd_sm90_' -- plan b4h16s4096d128,causal --device h200
check 'has no such note' bash -c '! grep -q "fitted on" .out'
sed 's/NVIDIA H200/NVIDIA H200 NVL/; /"fitted"/d' "$root/devices/h200.json" >nvl.json
expect 'one that is only called so' 0 out='^note +the times .* fitted on an H200' -- plan b4h16s4096d128,causal --device ./nvl.json
expect 'new rows over a cache, their parts' 0 out='^fwd_sm90_bf16_d128_split_m128n128s2 +m128n128s2w12 .* 16 +8 +128 .* selector +<- chosen' -- plan b1h32hkv8s64sk16384d128,bf16 --device h200
expect 'a decode, its parts' 0 out='^decode_sm90_.* 8 in a cluster .* decode +<- chosen' -- plan b1h32hkv8s1sk8192d128,bf16 --device h200
expect 'a kernel without a model' 0 out='^chosen +decode_sm80_.*; no model predicts its time' -- plan b1h32hkv8s1sk8192d128,bf16 --device a100
expect 'the list is short' 0 out='--all lists them' -- plan b1h8s512d64 --device l4
check 'and readable' test "$(wc -l <.out)" -lt 40
expect 'the tiles that do not fit' 0 out='^no fit +115 of 216 tiles: 66 by shared memory, 49 by registers; --all' -- plan b1h8s512d64 --device l4
expect '--all' 0 out='^no fit +m[0-9]+n[0-9]+s[0-9]w[0-9] +shared memory: [0-9]+ B, the limit per block is 101376' -- plan b1h8s512d64 --device l4 --all
check 'lists every tile' test "$(grep -cE '^(no fit +)?m[0-9]+n[0-9]+' <(sed 's/^no fit *//' .out))" -ge 216
expect 'several problems' 0 out='^problem +b1h1s64d128,bf16,causal' -- plan b1h8s512d64 b1h1s64d128,bf16,causal --device l4
expect 'flags make a problem' 0 out='^problem +b2h8s128d64,bf16' -- plan -b 2 --hq 8 --sq 128 -d 64 --dtype bf16 --device l4

# ---------------------------------------------------------------------------- ranks
long=b1h32hkv8s131072d128,bf16,causal
expect 'over ranks' 0 out='^64 ranks +one would take ' -- plan $long --device h200 --ranks 2,64 --link 450,5 --json ranks.json
check 'each number, four ways, one of them best' json ranks.json \
    '[r["ranks"] for r in d["results"][0]["ranks"]] == [2, 64] and all(len(r["ways"]) == 4 and sum(w.get("best", False) for w in r["ways"]) == 1 for r in d["results"][0]["ranks"])'
check 'what cannot be says why' json ranks.json '[w["why"] for w in d["results"][0]["ranks"][1]["ways"] if not w["possible"]] == ["32 heads cannot be divided evenly among 64 ranks"]'
check 'the whole is the time of the chosen kernel' json ranks.json 'd["results"][0]["ranks"][0]["whole_seconds"] == d["results"][0]["chosen"]["predicted_seconds"]'
expect 'a measured time needs no device' 0 out='^2 ranks +one would take 2000000 us; a link of 3 GB/s and 80 us' -- plan b1h2s16384d128,f32,causal --ranks 2 --link 3,80 --whole 2 --json whole.json
check 'and is taken' json whole.json 'd["results"][0]["ranks"][0]["whole_seconds"] == 2 and d["results"][0]["ranks"][0]["ways"][0]["compute_seconds"] > 1'
expect 'ranks without a link' 2 err='--ranks needs --link' -- plan $long --device h200 --ranks 2
expect 'a link without ranks' 2 err='--link needs --ranks' -- plan $long --device h200 --link 3
expect 'a time without ranks' 2 err='--whole needs --ranks' -- plan $long --device h200 --whole 3
expect 'one rank' 2 err='--ranks 1: .* from 2 to 10000' -- plan $long --device h200 --ranks 1 --link 3
expect 'invalid ranks' 2 err='--ranks 2,x: ' -- plan $long --device h200 --ranks 2,x --link 3
expect 'an invalid link' 2 err='--link fast: expected GB/s' -- plan $long --device h200 --ranks 2 --link fast
expect 'gradients over ranks' 0 out='^problem   backward:b1h2s64d64' -- plan backward:b1h2s64d64 --whole 1 --ranks 2 --link 3
expect 'experts over ranks' 2 err='only attention and its backward' -- plan moe:t1e8k2h64i64 --whole 1 --ranks 2 --link 3
expect 'nothing to cut' 2 err='without rows or keys cannot be split' -- plan b1h2s0d64 --whole 1 --ranks 2 --link 3
expect 'decode is bound by memory' 0 out='memory .*binds' -- plan b1h32hkv8s1sk8192d128,bf16 --device h200
expect 'float32 has no tensor-core tile' 0 out='^tiles +none: tensor cores round f32' -- plan b1h8s512d64,f32 --device a100
expect 'nothing to compute' 0 out='^tiles +none: there is nothing to compute' -- plan b0h8s512d64 --device a100
expect 'a head dimension that nothing serves' 0 out='^chosen +none: .*d_qk=300' -- plan b1h8s512d300 --device a100
expect 'a device file by its path' 0 out='^device +NVIDIA L4' -- plan b1h8s512d64 --device "$root/devices/l4.json"
expect 'an unknown device' 2 err="no device 'l5'; there are a10, a100, h100, h200, l4, rtx4090" -- plan b1h8s512d64 --device l5
expect 'no such file' 2 err='./none.json: No such file' -- plan b1h8s512d64 --device ./none.json
sed 's/"value": 58/"value": "58"/' "$root/devices/l4.json" >bad.json
expect 'a malformed device file' 2 err='./bad.json: limits.sms.value: expected a number' -- plan b1h8s512d64 --device ./bad.json
printf '{' >bad.json
expect 'a device file that is no JSON' 2 err='./bad.json:1: ' -- plan b1h8s512d64 --device ./bad.json
mkdir own && sed 's/NVIDIA L4/My GPU/' "$root/devices/l4.json" >own/mine.json
export ATTEST_DEVICES=$scratch/own
expect 'ATTEST_DEVICES' 0 out='^device +My GPU' -- plan b1h8s512d64 --device mine
unset ATTEST_DEVICES
expect 'no shape' 2 err='expected a shape' -- plan --device l4
expect 'a problem that makes no sense' 2 err='heads' -- plan b1h8hkv3s512d64 --device l4

no_gpu() {
    ATTEST_LIBCUDA=/nonexistent/libcuda.so.1 expect "$@"
}
no_gpu 'without a GPU and without --device' 3 err='use --device to plan for another GPU: a10' -- plan b1h8s512d64
no_gpu 'cuda:0 without a GPU' 3 -- plan b1h8s512d64 --device cuda:0

# --------------------------------------------------------------- explain, for a GPU that is not present
line=b4h16s4096d128,bf16,causal
expect 'explain for an H200' 0 out='^chosen +fwd_sm90_bf16_d128_[a-z0-9]+ +would serve it on NVIDIA H200$' -- \
    explain $line --device h200 --json explain.json
check 'the chosen kernel comes first' bash -c "sed -n 3p .out | grep -q '^chosen '"
check 'refusals for the same reason share a line' grep -qE '^refused +[0-9]+ kernels +dtype: is for f16, not bf16: decode_sm90\*, ' .out
check 'a reason of one kernel stands beside its name' grep -qE '^refused +mask_sm90 +role: reads masks' .out
check 'no more lines than a screen has' test "$(wc -l <.out)" -lt 45
check 'the folds count every kernel' python3 - <<'END'
import json, re
refused = [line for line in json.load(open("explain.json"))["results"][0]["text"] if line.startswith("refused ")]
shown = [re.match(r"refused +(\d+) kernels ", line) for line in open(".out") if line.startswith("refused ")]
assert len(refused) > 100 and sum(int(m[1]) if m else 1 for m in shown) == len(refused), (len(refused), len(shown))
END
expect 'with --all, each has a line' 0 -- explain $line --device h200 --all
check 'all that the document has' python3 - <<'END'
import json
lines = json.load(open("explain.json"))["results"][0]["text"]
words = lambda texts: sorted(text.split() for text in texts)  # the columns are the terminal's
assert len(lines) > 100 and words(lines) == words(open(".out").read().splitlines()[2:])
END
check 'the device is in the document, and no machine' json explain.json \
    'd["schema"] == "attest-explain-1" and d["device"]["name"] == "NVIDIA H200" and d["machine"] is None and d["results"][0]["kernel"].startswith("fwd_sm90_")'
cp explain.json there.json
use_shipped
ATTEST_LIBNVRTC=/nonexistent/libnvrtc.so expect 'also by a library that has neither code for it nor a compiler' 0 \
    out='^chosen +fwd_sm90_bf16_d128_[a-z0-9]+ +would serve it on NVIDIA H200$' -- explain $line --device h200
use_images
expect 'plan agrees' 0 -- plan $line --device h200 --json planned.json
check 'on the kernel' json planned.json \
    'd["results"][0]["chosen"]["kernel"] == __import__("json").load(open("there.json"))["results"][0]["kernel"]'
expect 'without evidence for the architecture nothing serves' 3 out='^refused +fwd_sm80_bf16_d128.* flags: ' -- explain $line --device a100 --all
expect 'unless it is allowed' 0 out='^chosen +fwd_sm80_bf16_d128' -- explain $line --device a100 --allow-unattested
ATTEST_ALLOW_UNATTESTED=1 expect 'or the environment allows it' 0 out='^chosen +fwd_sm80_bf16_d128' -- explain $line --device a100
check 'ids of any length, one column' bash -c "attest explain $line --device h200 --all | sed -nE 's/^((chosen|passed|refused) +[^ ]+ +).*/\\1/p' |
    awk '{ widths[length(\$0)]++; n++ } END { exit !(n > 100 && length(widths) == 1) }'"
expect 'one kernel alone' 0 out='^chosen +fwd_sm80_bf16_d128' -- explain $line --device h200 --kernel 'fwd_sm80_bf16_d128_m*'
expect 'no such kernel' 2 err='there is no such kernel for GPUs' -- explain $line --device h200 --kernel fwd_cpu_avx2
expect 'gradients too' 0 out='^chosen +bwd_sm' -- explain backward:$line --device h200
expect 'no such device' 2 err="--device h2000: no device 'h2000'; there are a10, .* or cpu, or virtual" -- explain $line --device h2000
expect 'threads are of this machine' 2 err='--isa, --threads and --rows are for devices of this machine' -- explain $line --device h200 --threads 2

# -------------------------------------------------------------------------- doctor
use_shipped
no_gpu 'doctor on a machine without a GPU' 0 out='^ok +run cpu +(fwd|decode)_cpu_[a-z0-9]+ ran, as intended' -- doctor --device cpu --json doctor.json
no_gpu 'no warning of missing GPU code where no GPU is' 0 out='^ok +code ' -- doctor --device cpu
check 'doctor json' json doctor.json 'd["schema"] == "attest-doctor-1" and len(d["runs"]) == 1 and len(d["runs"][0]["samples_ns"]) == 5'
check 'each finding has a level, each warning a remedy' json doctor.json \
    'all(f["level"] == "ok" or (f["level"] in ("warn", "fail") and f["remedy"]) for f in d["findings"])'
check 'the run was verified' json doctor.json 'd["runs"][0]["verify"]["outcome"] == "pass" and d["runs"][0]["launch"]["kernel"]'
no_gpu 'doctor of a GPU that is not here' 3 out='^fail +driver ' -- doctor --device cuda
check 'has a remedy' grep -q 'remedy: install NVIDIA' .out
ATTEST_ISA=portable no_gpu 'doctor names settings that are in force' 0 out='^warn +environment .*ATTEST_ISA=portable' -- doctor --device cpu
ATTEST_ISA=nonsense no_gpu 'doctor of a broken setting' 1 out='^fail +processor .*ATTEST_ISA' -- doctor --device cpu
expect 'doctor takes no shape' 2 err='takes no arguments' -- doctor b1h1s8d8
expect 'doctor takes no seed' 2 err='--seed is not an option of this verb' -- doctor --seed 3

# Without its data the program still works, and says what is missing.
cp "$BUILD/attest" alone
./alone doctor --device cpu >alone.out 2>&1
check 'doctor alone' test $? -eq 0
check 'misses its data' grep -qE '^warn +data +no suite' alone.out

# Damaged machine code is detected: one byte of a kernel is changed in a copy of the program.
use_images
python3 - "$(command -v attest)" damaged <<'PY'
import sys
data = bytearray(open(sys.argv[1], "rb").read())
data[data.index(b"\x50\xed\x55\xba") + 200] ^= 1  # how a fat binary begins
open(sys.argv[2], "wb").write(data)
PY
chmod +x damaged
./damaged doctor --device cpu >damaged.out 2>&1
check 'doctor finds damage' test $? -eq 1
check 'and names the kernel' grep -qE '^fail +code +[a-z0-9_]+ for compute capability .* digest' damaged.out
finish
