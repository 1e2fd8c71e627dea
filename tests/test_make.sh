#!/usr/bin/env bash
# test_make.sh: the output of make: short lines, whole commands with V=1, nothing with -s; warnings are errors only with
# WERROR=1; what CROSS compiles; what another CUDA_OUT compiles; which kernels are sanitized.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0
failed=0

check() { # check NAME COMMAND...
    local name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        echo "FAILED $name"
        failed=$((failed + 1))
    fi
}

printed() { # printed OPTION...: by the compilation of one file, in a folder of its own, whatever make this is called from
    rm -rf "$scratch/build"
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u WERROR -u V make --no-print-directory NVCC= BUILD="$scratch/build" "$@" \
        "$scratch/build/obj/src/base/error.o" 2>&1
}

check 'one short line' test "$(printed)" = '  CC    src/base/error.c'
check 'nothing with -s' test -z "$(printed -s)"
whole=$(printed V=1)
check 'the whole command with V=1' grep -q -- ' -c src/base/error.c -o ' <<<"$whole"
check 'warnings are no errors by themselves' test "$(grep -c -- -Werror <<<"$whole")" -eq 0
check 'they are with WERROR=1' test "$(printed V=1 WERROR=1 | grep -c -- -Werror)" -eq 1

# Without the header of the only library that the program needs.
bare=$(env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u V make --no-print-directory NVCC= CPPFLAGS=-nostdinc BUILD="$scratch/bare" all 2>&1)
check 'without jansson.h it says what to do' grep -q '^attest needs the header jansson.h: .make run. installs it, or the package libjansson-dev' <<<"$bare"
check 'and compiles nothing' test "$(grep -cE '^  CC|fatal error' <<<"$bare")" -eq 0
bare=$(env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u V make --no-print-directory NVCC= CPPFLAGS=-nostdinc BUILD="$scratch/bare" \
    "$scratch/bare/obj/cli/sink.o" 2>&1)
check 'also before a file of the program' test "$(grep -c '^attest needs the header jansson.h' <<<"$bare")" -eq 1
# `pip install .` leaves the program out then.
wheel() { # wheel FLAG...: what would be made for it
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u V make -n NVCC= PYTHON_INCLUDE=/usr/include BUILD="$scratch/wheel" "$@" wheel-parts 2>&1
}
check 'with it a wheel has the program' test "$(wheel | grep -c ' -o .*/bin/attest ')" -eq 1
parts=$(wheel CPPFLAGS=-nostdinc)
check 'without it a wheel has the library' test "$(grep -c ' -o .*/_core.abi3.so ' <<<"$parts")" -eq 1
check 'and no program' test "$(grep -cE ' -o .*/bin/attest |has_jansson' <<<"$parts")" -eq 0

# For another processor; nothing is run, so that neither compiler nor libraries need be here.
crossed=$(env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -n V=1 NVCC= BUILD="$scratch/build" SYSROOT="$scratch" \
    CROSS=aarch64-linux-gnu- "$scratch/build/libattest.a" 2>&1 | grep -- ' -c src/')
check 'CROSS names the compiler' test "$(grep -vc '^aarch64-linux-gnu-gcc ' <<<"$crossed")" -eq 0
check 'no file of x86-64 is compiled for another processor' test "$(grep -cE -- ' -m(avx|fma|amx)|_(avx2|avx512|avx512_bf16|amx)\.c' <<<"$crossed")" -eq 0
check 'rows that refuse stand in for them' test "$(grep -c _absent.c <<<"$crossed")" -eq 4
check 'its own files are compiled' test "$(grep -c '_neon\.c' <<<"$crossed")" -eq 4

# Kernels under the compiler's sanitizers: no source is left out.
# shellcheck disable=SC2016 # $(SANITIZED_ROWS) is make's
sanitized=$(printf 'sanitized: ; @printf "%%s\\n" $(SANITIZED_ROWS)\n' |
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s --no-print-directory NVCC= BUILD="$scratch/build" -f Makefile -f - sanitized)
sources_of() { # sources_of ROW: its own, and those that are launched with it on the problems that row.sh chooses
    sed -nE "s/^ATT_CUDA_KERNEL\($1, *([a-z0-9_]+),.*/\1/p" kernels/kernels.def
    case $1 in
    fwd_*_mask_*) echo fwd_mask ;;
    decode_join_*) echo fwd_decode_shares ;;
    bwd_bias_*) printf '%s\n' bwd_sm80 bwd_delta ;;
    bwd_sm90_finish_*) echo bwd_sm90 ;;
    bwd_sm90_wide_finish_*) echo bwd_sm90_wide ;;
    moe_combine_*) printf '%s\n' moe_route moe_sm80 moe_sm80_down ;;
    moe_few_*) echo moe_few_down ;;
    moe_sm90_*) echo moe_sm90_down ;;
    esac
}
check 'every source is sanitized' diff <(sed -nE 's/^ATT_CUDA_KERNEL\([a-z0-9_]+, *([a-z0-9_]+),.*/\1/p' kernels/kernels.def | sort -u) \
    <(for row in $sanitized; do sources_of "$row"; done | sort -u)

# The kernels of another folder, which may be older than the object that contains them.
embeds() { # embeds CUDA_OUT: how many times the kernels are compiled into the library's object
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u V make --no-print-directory NVCC= BUILD="$scratch/build" \
        CUDA_OUT="$scratch/$1" "$scratch/build/obj/cuda_embedded.o" 2>&1 | grep -c '^  CC    .*embedded\.c$'
}
check 'the kernels of a folder are embedded' test "$(embeds one)" -eq 1
check 'they are up to date then' test "$(embeds one)" -eq 0
check 'those of another folder are not' test "$(embeds other)" -eq 1
check 'nor those of the first again, which are older than the object' test "$(embeds one)" -eq 1

echo "$passed passed, $failed failed, 0 skipped"
((failed == 0))
