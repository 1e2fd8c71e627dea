#!/usr/bin/env bash
# test_rewrite.sh: the output of rewrite for pieces of preprocessed CUDA C, and what it refuses. REWRITE is the program.
set -uo pipefail
passed=0
failed=0

# gives NAME INPUT PATTERN: the output must match the pattern, an extended regular expression.
gives() {
    local output
    if output=$(printf '%b' "$2" | "$REWRITE" 2>&1) && grep -qE -- "$3" <<<"$output"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $1: no '$3' in: $output"
    fi
}

# refuses NAME INPUT PATTERN: it must fail with this error.
refuses() {
    local output
    if ! output=$(printf '%b' "$2" | "$REWRITE" 2>&1 >/dev/null) && grep -qE -- "$3" <<<"$output"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $1: no '$3' in: $output"
    fi
}

marker='# 7 "./kernels/a.cuh"\n'

gives 'an asm statement says where it is' "${marker}void f() { asm volatile(\"bar.sync 0;\"); }" \
    '\{"bar.sync 0;", "", "kernels/a.cuh", 7, 0\}; const uint64_t vgpu_operands\[\] = \{0\}; vgpu_run_asm'
gives 'operands by constraint, outputs by address' 'void f() { asm("x %0" : "=r"(a), "+f"(b[g(1, 2)]) : "l"(p), "n"(3), "h"(c), "d"(e) : "memory"); }' \
    '"=r \+f l n h d".*\{vgpu_out_r\(a\), vgpu_out_f\(b\[g\(1, 2\)\]\), vgpu_in_l\(p\), vgpu_in_n\(3\), vgpu_in_h\(c\), vgpu_in_d\(e\)\}'
gives 'no outputs, colons together' 'void f() { asm volatile("x"::"r"(a):"memory"); }' '"x", "r", .*\{vgpu_in_r\(a\)\}'
gives 'colons and parentheses in text are text' 'void f() { asm("a::b (%0) \\"(" "; c" : "=r"(x)); }' '"a::b \(%0\) \\"\(" "; c", "=r"'
gives 'a conditional operand' 'void f() { asm("x" :: "r"((a ? b : c))); }' 'vgpu_in_r\(\(a \? b : c\)\)'
gives 'an empty statement is a barrier of the compiler' 'void f() { asm volatile("" : "+f"(d[i]) :: "memory"); }' '\{ __asm__ __volatile__\("" ::: "memory"\); \}'
gives 'other spellings' 'void f() { __asm__ __volatile__ ("x"); }' 'vgpu_run_asm'
gives 'a name that only begins so' 'int asm_count; void f(int plasm) { plasm(1); }' '^int asm_count; void f\(int plasm\) \{ plasm\(1\); \}$'
gives 'a text over lines is on one' "${marker}void f() { asm(\"a\"\n\"b\"); }" '"a" "b", ""'
gives 'directives within a statement come behind it' "${marker}void f() { asm(\"a\"\n# 30 \"kernels/b.cuh\"\n\"b\"); }" '^# 30 "kernels/b.cuh"$'

# Lines after a statement, or after shared memory, keep their numbers.
stays() { # stays NAME INPUT: HERE is in the same line of the output
    local expected actual
    expected=$(printf '%b' "$2" | grep -n HERE | cut -d: -f1)
    actual=$(printf '%b' "$2" | "$REWRITE" 2>&1 | grep -n HERE | cut -d: -f1)
    if [[ -n $expected && $actual == "$expected" ]]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $1: line $actual, not $expected"
    fi
}
stays 'behind a statement over lines' 'void f() { asm("a"\n"b"\n: "=r"(x)\n); \nint HERE; }'
stays 'behind static shared memory over lines' 'static\n__shared__\nfloat x; int HERE;'
stays 'behind dynamic shared memory over lines' 'void f() { extern __shared__\nfloat\nx[]; int HERE; }'
gives 'files are named without ./' "${marker}int x;" '^# 7 "kernels/a.cuh"$'

gives 'dynamic shared memory in a block' 'void f() { extern __shared__ __align__(128) unsigned char s[]; g(s); }' \
    'section\("vgpu_aligns"\), used\)\) = 128; unsigned char \*const s = \(unsigned char \*\)vgpu_dynamic_shared\(\); g\(s\);'
gives 'dynamic shared memory of a file' 'extern "C" { extern __shared__ float4 s[]; }' '^#define s \(\(float4 \*\)vgpu_dynamic_shared\(\)\)$'
gives 'static shared memory' 'static __shared__ float q[2], k[3];' '^static __attribute__\(\(section\("vgpu_shared"\)\)\) float q\[2\], k\[3\];$'
gives 'static shared memory of a function' 'void f() { __shared__ float4 x; }' '\{ static __attribute__\(\(section\("vgpu_shared"\)\)\) float4 x; \}'
gives 'extern of anything else' 'extern int x; extern "C" void f();' '^extern int x; extern "C" void f\(\);$'

refuses 'a constraint that is not known' "${marker}void f() {\nasm(\"x\" : \"=q\"(a)); }" '^kernels/a.cuh:8: error: .*"=q"'
refuses 'an output among the inputs' 'void f() { asm("x" :: "=r"(a)); }' '^stdin:1: error: .*input'
refuses 'an input among the outputs' 'void f() { asm("x" : "r"(a)); }' '^stdin:1: error: .*output'
refuses 'an operand without a value' 'void f() { asm("x" : "=r"); }' 'without a value'
refuses 'a statement without its end' "${marker}void f() { asm(\"x\" : \"=r\"(a; }" '^kernels/a.cuh:7: error:'
refuses 'a string without its end' "${marker}void f() { asm(\"x); }" '^kernels/a.cuh:7: error:'
refuses 'a brace too many' "${marker}void f() { }\n}" '^kernels/a.cuh:8: error: a } without'
refuses 'a brace too few' 'void f() { {' 'without its }'
refuses 'dynamic shared memory with a size' 'extern __shared__ float s[4];' 'not of the form'

echo "$passed passed, $failed failed, 0 skipped"
((failed == 0))
