#!/usr/bin/env bash
# cuda_embed.sh FILE...: write the C source that puts files into the library (src/cuda/embed.h).
#
# ID.sm_XX.fatbin is machine code, ID.compute_80.fatbin is PTX; everything else is source text, named kernels/FILE
# wherever it is stored.
set -euo pipefail

begin() { # begin NUMBER FILE: the bytes of FILE, and a zero
    cat <<END
__asm__(".pushsection .rodata\n.balign 64\n.global att_embedded_$1\n.hidden att_embedded_$1\n"
        "att_embedded_$1:\n.incbin \"$2\"\n.byte 0\n.popsection\n");
extern const unsigned char att_embedded_$1[] __attribute__((visibility("hidden")));
END
}

codes=() texts=() number=0
echo '/* embedded.c: written by scripts/cuda_embed.sh. */'
echo '#include "cuda/embed.h"'
for file in "$@"; do
    begin $number "$file"
    size=$(stat -c %s "$file")
    name=${file##*/}
    case $name in
    *.fatbin)
        id=${name%%.*}
        cc=0
        if [[ $name == *.sm_* ]]; then
            cc=${name#*.sm_}
            cc=${cc%%[!0-9]*}
        fi
        read -r digest _ < <(sha256sum "$file")
        codes+=("    {\"$id\", $cc, att_embedded_$number, $size, \"$digest\"},")
        ;;
    *)
        texts+=("    {\"kernels/$name\", (const char *)att_embedded_$number, $size},")
        ;;
    esac
    number=$((number + 1))
done
echo 'const att_embedded_code att_embedded_codes[] = {'
printf '%s\n' "${codes[@]}" '    {0, 0, 0, 0, 0}};'
echo 'const att_embedded_text att_embedded_texts[] = {'
printf '%s\n' "${texts[@]}" '    {0, 0, 0}};'
