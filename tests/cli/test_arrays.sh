#!/usr/bin/env bash
# test_arrays.sh: attest run on .npy files: answers against NumPy, hostile files, huge files, failed runs.
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"

python=$(numpy_python) || { fail 'arrays' 'no Python with NumPy'; finish; }

answers=$("$python" "$tests_folder/arrays.py" 2>&1)
grep -vE '^(pass |done$)' <<<"$answers"
passed=$((passed + $(grep -c '^pass ' <<<"$answers")))
failed=$((failed + $(grep -c '^FAILED ' <<<"$answers")))
check 'the comparison came to its end' grep -qx 'done' <<<"$answers"

# Arrays for the tests below, and files that are not quite arrays.
"$python" - <<'PYTHON'
import numpy as np
rng = np.random.default_rng(2)
def save(name, shape, dtype="float32"):
    np.save(name, rng.standard_normal(shape).astype(dtype))
for name in "qkv":
    save(name + ".npy", (2, 10, 4, 8))
save("half.npy", (2, 10, 4, 8), "float16")
save("double.npy", (2, 10, 4, 8), "float64")
save("big_endian.npy", (2, 10, 4, 8), ">f4")
save("flat.npy", (2, 320))
save("other_batch.npy", (3, 10, 4, 8))
save("other_d.npy", (2, 10, 4, 16))
save("other_seq.npy", (2, 12, 4, 8))
save("three_heads.npy", (2, 10, 3, 8))
save("packed.npy", (20, 4, 8))
save("five_slopes.npy", (5,))
np.save("uint16.npy", np.ones((2, 10, 4, 8), np.uint16))
np.save("fortran.npy", np.asfortranarray(np.load("q.npy")))
np.save("objects.npy", np.array([{}, []], dtype=object), allow_pickle=True)
np.save("cu.npy", np.array([0, 7, 20], np.int32))
np.save("cu64.npy", np.array([0, 7, 20]))
np.save("cu_down.npy", np.array([0, 15, 7, 20], np.int32))
np.save("cu_past.npy", np.array([0, 7, 21], np.int32))
np.save("cu_start.npy", np.array([1, 7, 20], np.int32))
np.save("cu_three.npy", np.array([0, 5, 9, 20], np.int32))
np.save("cu_wide.npy", np.array([0, 2**40]))
np.save("cu_none.npy", np.array([], np.int32))
np.save("bias_bad.npy", np.zeros((7, 10), np.float32))
whole = open("q.npy", "rb").read()
open("cut_data.npy", "wb").write(whole[:-1])
open("cut_header.npy", "wb").write(whole[:60])
open("magic_only.npy", "wb").write(whole[:6])
open("empty.npy", "wb")
open("text.npy", "w").write("hello, world, this is not an array")
def header(text, name, data=b"\0" * 64):
    text = text.ljust(118) if len(text) < 118 else text
    open(name, "wb").write(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + data)
header("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4, 8), }", "overflow.npy")
header("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4294967296, 4294967296, 8), }", "zero_overflow.npy")
header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 10, 4, 8), }", "negative.npy")
header("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 10, 4, 8), }", "lying.npy")
header("{'descr': __import__('os').system('touch pwned'), 'fortran_order': False, 'shape': (2, 10, 4, 8), }", "code.npy")
open("header_past_end.npy", "wb").write(b"\x93NUMPY\x01\x00\xff\xff{}")
open("header_4g.npy", "wb").write(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}")
open("version_9.npy", "wb").write(b"\x93NUMPY\x09\x00" + whole[8:])
PYTHON
mkfifo fifo.npy

on_files() { # on_files NAME STATUS PATTERN ARGUMENT...: a run that must be refused and leave nothing
    local name=$1 status=$2 pattern=$3
    shift 3
    expect "$name" "$status" err="$pattern" -- run "$@" -o out.npy
    check "$name leaves nothing" bash -c '! ls -A | grep -q "^out.npy"'
}

qkv=(--q q.npy --k k.npy --v v.npy)
on_files 'no k' 2 '--q, --k, --v and -o are needed together' --q q.npy --v v.npy
expect 'no -o' 2 err='--v and -o are needed together' -- run "${qkv[@]}"
on_files 'a shape too' 2 'the arrays give the shape' "${qkv[@]}" b1h1s1d8
on_files 'a shape flag too' 2 '--hq: with files, the arrays give the shape' "${qkv[@]}" --hq 4
on_files 'packed layout' 2 '--layout packed is for shapes' "${qkv[@]}" --layout packed
expect 'one file twice' 2 err='name the same file' -- run "${qkv[@]}" -o out.npy --lse out.npy
expect 'stdout' 2 err='^attest run: -o -: arrays can only be written to files' -- run "${qkv[@]}" -o -
expect 'lse on stdout' 2 err='--lse -: arrays' -- run "${qkv[@]}" -o out.npy --lse -
check 'no file of that name' test ! -e ./-
cp q.npy before_q.npy
ln q.npy hard_q.npy
ln -s q.npy soft_q.npy
for name in q.npy ./q.npy hard_q.npy soft_q.npy; do
    expect "an input as the output, $name" 2 err="-o $name: is an input of this run" -- run "${qkv[@]}" -o $name
    expect "an input as the lse, $name" 2 err="--lse $name: is an input of this run" -- run "${qkv[@]}" -o out.npy --lse $name
done
check 'the input is as it was' cmp q.npy before_q.npy
rm hard_q.npy soft_q.npy
on_files 'missing file' 2 'nosuch.npy: cannot open: No such file' --q nosuch.npy --k k.npy --v v.npy
on_files 'other type' 2 'must have one element type' --q half.npy --k k.npy --v v.npy
on_files 'float64' 2 'double.npy: float64; float32, float16' --q double.npy --k double.npy --v double.npy
on_files 'uint16 without --bf16' 2 'say --bf16' --q uint16.npy --k uint16.npy --v uint16.npy
on_files 'dimensions' 2 'flat.npy has 2 dimensions' --q flat.npy --k k.npy --v v.npy
on_files 'packed without cu_seqlens' 2 'packed.npy has 3 dimensions' --q packed.npy --k packed.npy --v packed.npy
on_files 'batch' 2 'other_batch.npy has batch 3, but q.npy has 2' --q q.npy --k other_batch.npy --v other_batch.npy
on_files 'head dimension' 2 'other_d.npy has head dimension 16' --q q.npy --k other_d.npy --v v.npy
on_files 'k and v' 2 'v.npy has seq 10, but other_seq.npy has 12' --q q.npy --k other_seq.npy --v v.npy
on_files 'heads' 2 'heads_q=4 is not a multiple of heads_kv=3' --q q.npy --k three_heads.npy --v three_heads.npy
on_files 'causal alignment' 2 'top-left' --q q.npy --k other_seq.npy --v other_seq.npy --causal
on_files 'slopes' 2 'slopes must be' "${qkv[@]}" --alibi five_slopes.npy
on_files 'sinks' 2 'sinks must be' "${qkv[@]}" --sinks five_slopes.npy
on_files 'bias' 2 'bias_bad.npy: size 7 is neither 1 nor seq_q=10' "${qkv[@]}" --bias bias_bad.npy
on_files 'lens' 2 'cu.npy has 3 entries, but the batch is 2' "${qkv[@]}" --lens-k cu.npy
on_files 'starts' 2 'cu.npy has 3 entries, but the batch is 2' "${qkv[@]}" --starts-k cu.npy
packed=(--q packed.npy --k packed.npy --v packed.npy)
on_files 'cu_seqlens down' 2 'cu_seqlens_q' "${packed[@]}" --cu-seqlens-q cu_down.npy --cu-seqlens-k cu_down.npy
on_files 'cu_seqlens past the end' 2 'cu_seqlens_q' "${packed[@]}" --cu-seqlens-q cu_past.npy --cu-seqlens-k cu_past.npy
on_files 'cu_seqlens from 1' 2 'cu_seqlens_q' "${packed[@]}" --cu-seqlens-q cu_start.npy --cu-seqlens-k cu_start.npy
on_files 'cu_seqlens differ' 2 'has sequences 3, but cu.npy has 2' "${packed[@]}" --cu-seqlens-q cu.npy --cu-seqlens-k cu_three.npy
on_files 'cu_seqlens past int32' 2 'past int32' "${packed[@]}" --cu-seqlens-q cu_wide.npy --cu-seqlens-k cu_wide.npy
on_files 'cu_seqlens empty' 2 'one entry more' "${packed[@]}" --cu-seqlens-q cu_none.npy --cu-seqlens-k cu_none.npy
on_files 'cu_seqlens of floats' 2 'int32 or int64' "${packed[@]}" --cu-seqlens-q five_slopes.npy --cu-seqlens-k cu.npy
on_files 'output into nowhere' 3 'No such file' "${qkv[@]}" --lse /no/such/lse.npy
expect 'output onto a device' 3 err='not a regular file' -- run "${qkv[@]}" -o /dev/null
check 'the device is still there' test -c /dev/null

for file in fortran big_endian objects cut_data cut_header magic_only empty text overflow zero_overflow \
    negative lying code header_past_end header_4g version_9 fifo; do
    on_files "hostile $file" 2 "$file.npy: " --q "$file.npy" --k k.npy --v v.npy
done
check 'no code ran' test ! -e pwned
on_files 'fortran says what to do' 2 'np.ascontiguousarray' --q fortran.npy --k k.npy --v v.npy

# bfloat16 as NumPy writes it: '<V2' from ml_dtypes and JAX, '|V2' after NumPy has read and rewritten it.
"$python" - <<'PYTHON'
import numpy as np
rng = np.random.default_rng(5)
for name in "qkv":
    array = (rng.standard_normal((2, 6, 2, 16)).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    np.save(f"u_{name}.npy", array)
    bytes = open(f"u_{name}.npy", "rb").read()
    for prefix, descr in (("v", b"'<V2'"), ("r", b"'|V2'"), ("b", b"'>V2'")):
        open(f"{prefix}_{name}.npy", "wb").write(bytes.replace(b"'<u2'", descr))
    open(f"n_{name}.npy", "wb").write(bytes.replace(b"'<u2', ", b"'bfloat16', ").replace(b"     \n", b"\n", 1))
try:
    import ml_dtypes
    array = np.load("u_q.npy").view(ml_dtypes.bfloat16)
    np.save("own_q.npy", array)
    assert open("own_q.npy", "rb").read() == open("v_q.npy", "rb").read(), "ml_dtypes writes something else"
except ImportError:
    print("skipped: ml_dtypes itself is not here")
PYTHON
expect 'bfloat16 as uint16' 0 -- run --q u_q.npy --k u_k.npy --v u_v.npy -o u_o.npy --bf16
expect 'bfloat16 of ml_dtypes' 0 out='dtype=bf16' -- run --q v_q.npy --k v_k.npy --v v_v.npy -o v_o.npy
expect 'bfloat16 by its name' 0 out='dtype=bf16' -- run --q n_q.npy --k n_k.npy --v n_v.npy -o n_o.npy
expect 'bfloat16 as raw bytes' 0 out='dtype=bf16' -- run --q r_q.npy --k r_k.npy --v r_v.npy -o r_o.npy --bf16
expect 'in several forms' 0 -- run --q v_q.npy --k u_k.npy --v r_v.npy -o mixed_o.npy --bf16
check 'the answers are the same, written as Q is' "$python" - <<'PYTHON'
import numpy as np
want = np.load("u_o.npy")
assert want.dtype == np.uint16
for name, form in (("v", b"'<V2'"), ("n", b"'<V2'"), ("r", b"'<u2'"), ("mixed", b"'<V2'")):
    assert form in open(f"{name}_o.npy", "rb").read(128), name
    assert np.array_equal(np.load(f"{name}_o.npy").view(np.uint16), want), name
PYTHON
on_files 'raw bytes without --bf16' 2 "r_q.npy: raw \\(\\|V2\\); say --bf16" --q r_q.npy --k r_k.npy --v r_v.npy
on_files 'bfloat16 of the other byte order' 2 'big-endian' --q b_q.npy --k b_k.npy --v b_v.npy

# A run that fails while computing, after the output was created, leaves the old output unchanged.
cp q.npy kept.npy
expect 'failing over an old output' 2 -- \
    run "${packed[@]}" --cu-seqlens-q cu_down.npy --cu-seqlens-k cu_down.npy -o kept.npy
check 'the old output is whole' cmp q.npy kept.npy

# start_run OUTPUT ARGUMENT...: a run that would take minutes; waits until it is computing.
start_run() {
    local output=$1
    shift
    attest run "$@" -o "$output" --repeat 10000000 >/dev/null 2>"$scratch/.err" &
    run=$!
    for _ in {1..100}; do
        ls "$output".* >/dev/null 2>&1 && return
        find "/proc/$run/fd" -lname "$scratch/*(deleted)" 2>/dev/null | grep -q . && return
        sleep 0.05
    done
    fail 'start_run' "$output was not begun"
}

start_run stopped.npy "${qkv[@]}"
kill -TERM "$run"
wait "$run" 2>/dev/null
status=$?
check 'it died of the signal' test "$status" -eq 143
check 'an interrupted run leaves nothing' bash -c '! ls stopped.npy*'

# No handler sees SIGKILL.
start_run killed.npy "${qkv[@]}"
kill -KILL "$run"
wait "$run" 2>/dev/null
if stat -f -c %T . | grep -qE 'tmpfs|ext|xfs|btrfs'; then
    check 'a killed run leaves nothing' bash -c '! ls killed.npy*'
else
    skip 'a killed run: this file system has no nameless files'
fi

# The permissions of a file stay.
(umask 022 && cp q.npy private.npy && chmod 600 private.npy)
expect 'over a private output' 0 -- run "${qkv[@]}" -o private.npy
check 'it stays private' test "$(stat -c %a private.npy)" = 600
(umask 077 && attest run "${qkv[@]}" -o new_private.npy >/dev/null)
check 'a new output has the mask of the caller' test "$(stat -c %a new_private.npy)" = 600
(umask 022 && attest run "${qkv[@]}" -o new_public.npy >/dev/null)
check 'and no other' test "$(stat -c %a new_public.npy)" = 644
ln -s new_public.npy linked.npy
expect 'through a link' 0 -- run "${qkv[@]}" -o linked.npy
check 'the link stays one' test -L linked.npy

cp q.npy vanishing.npy
start_run lost.npy --q q.npy --k vanishing.npy --v v.npy
truncate -s 0 vanishing.npy
wait "$run"
status=$?
check 'an input that vanishes ends the run' test "$status" -eq 3
check 'and is spoken of' grep -q 'an input file was cut short' .err
check 'and leaves nothing' bash -c '! ls lost.npy*'

# A full disk is detected before computing, and nothing is left behind. Only root may mount one.
if mkdir small && mount -t tmpfs -o size=64k tmpfs small 2>/dev/null; then
    "$python" -c '
import numpy
for name in "qkv":
    numpy.save("large_" + name, numpy.zeros((1, 4096, 1, 8), numpy.float32))'
    expect 'full disk' 3 err='No space left' -- \
        run --q large_q.npy --k large_k.npy --v large_v.npy -o small/o.npy
    check 'full disk leaves nothing' test -z "$(ls -A small)"
    umount small
fi

# K and V of 640 MiB under a memory limit that could not hold a copy of either.
"$python" - <<'PYTHON'
import numpy as np
q = np.random.default_rng(3).standard_normal((1, 1, 8, 128)).astype(np.float16)
np.save("long_q.npy", q)
for name in "kv":
    array = np.lib.format.open_memmap(f"long_{name}.npy", "w+", np.float16, (1, 163840, 8, 128))
    array[0, -1] = 1.0  # the rest stays a hole of zeros
PYTHON
long=(--q long_q.npy --k long_k.npy --v long_v.npy -o long_o.npy --threads 2)
# shellcheck disable=SC2016 # $@ is for the inner shell
check 'inputs larger than memory' bash -c 'ulimit -v 860000; attest run "$@"' - "${long[@]}"
# shellcheck disable=SC2016 # $0 is for the inner shell
check 'a copy would not have fitted' bash -c \
    'ulimit -v 860000; ! "$0" -c "import mmap; [mmap.mmap(-1, 320 << 20) for _ in range(3)]"' "$python"
check 'and the answer is right' "$python" -c '
import numpy as np
q = np.load("long_q.npy").astype(float)[0, 0]
weight = np.exp(q.sum(axis=1) / np.sqrt(128))
expected = weight / (163839 + weight)
got = np.load("long_o.npy").astype(float)[0, 0]
assert np.allclose(got, expected[:, None], rtol=2e-2, atol=1e-7), (got[:, 0], expected)'
finish
