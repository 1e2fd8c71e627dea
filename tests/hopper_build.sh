#!/usr/bin/env bash
# hopper_build.sh: the compiled code of fwd_sm90 has the intended form: products overlap, registers are handed over, and
# the wait for the products of one tile of keys comes after the maxima of the next tile if the weights need them, and
# after its weights if they do not; copies use uniform registers.
#
#   tests/hopper_build.sh FOLDER NVDISASM      FOLDER has ID.sm_90a.ptxas and ID.sm_90a.cubin; NVDISASM may be empty
#
# Checks the build, then plants one violation of each kind in copies and demands that it is found.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=${1-} nvdisasm=${2-}
if [[ -z $folder ]]; then
    echo 'skipped: the machine code of fwd_sm90: there is no nvcc here'
    exit 0
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
    echo "hopper_build: $*" >&2
    exit 1
}

# Rows of fwd_sm90, and of its sources for special cases: one "id d_qk tile_n source role" per line, followed by
# "features" if some are compiled in.
rows() {
    awk -F'[(,]' '/^ATT_CUDA_KERNEL\(/ {
        gsub(/[ \t]/, "")
        if ($3 ~ /^fwd_sm90/)
            print $2, $7, $10, $3, $5, /ATT_FEATURE_/ ? "features" : ""
    }' kernels/kernels.def
}

# report_complaints FILE: lines in which ptxas says that it did not do what was asked
report_complaints() {
    sed -nE '/serializ|setmaxnreg/s/^ptxas [a-z]+ *: *//p' "$1"
}

# code_complaints LISTING D_QK TILE_N ROLE: the innermost loop that has both products, S = QK^T and, transposing its
# right side, PV
code_complaints() {
    awk -v steps_s="$(($2 / 16))" -v steps_pv="$(($3 / 16))" -v least="$(($3 / 4))" -v weights="$(if [[ $4 == PLAIN || $4 == SPLIT ]]; then echo "$3"; else echo 0; fi)" '
        { line[NR] = $0 }
        /^\.L_[A-Za-z0-9_]+:/ { at[substr($1, 1, length($1) - 1)] = NR }
        /BRA/ && match($0, /\.L_[A-Za-z0-9_]+/) {
            label = substr($0, RSTART, RLENGTH)
            if (label in at) {
                from[++loops] = at[label]
                to[loops] = NR
            }
        }
        END {
            for (i = 1; i <= loops; i++) {
                s = pv = 0
                for (n = from[i]; n <= to[i]; n++)
                    if (line[n] ~ /HGMMA/) {
                        if (line[n] ~ /tnspB/) pv++
                        else s++
                    }
                if (s && pv && (!best || to[i] - from[i] < to[best] - from[best])) {
                    best = i
                    count_s = s
                    count_pv = pv
                }
            }
            if (!best) {
                print "has no loop with both products"
                exit
            }
            if (count_s != steps_s || count_pv != steps_pv)
                print "has " count_s " + " count_pv " products in its main loop, not " steps_s " + " steps_pv
            for (n = from[best]; n <= to[best]; n++) {
                if (line[n] ~ /HGMMA/) last = n
                if (line[n] ~ /HGMMA/ && waited) {
                    print "waits for products before all of them are in flight"
                    exit
                }
                if (line[n] ~ /WARPGROUP\.DEPBAR/) waited = 1
            }
            for (n = last; n <= to[best] && line[n] !~ /WARPGROUP\.DEPBAR\.LE gsb0, 0x0/; n++)
                {
                    maxima += line[n] ~ /FMNMX/
                    weighed += line[n] ~ /MUFU\.EX2/
                }
            if (n > to[best])
                print "never waits for PV in its main loop"
            else if (maxima < least)
                print "waits for PV after " maxima + 0 " maxima of the next scores, not after " least " or more"
            else if (weighed < weights)
                print "waits for PV after " weighed + 0 " of the next weights, not after " weights " or more"
        }' "$1"
}

# copy_complaints LISTING: the address of a copy is in uniform registers. If the compiler assumes that it differs per
# lane, it is moved there before each copy, and the consumers wait for that.
copy_complaints() {
    awk '
        /UTMALDG/ {
            copies++
            for (n = NR - 14; n < NR; n++)
                moved += line[n % 16] ~ /R2UR/
        }
        { line[NR % 16] = $0 }
        END {
            if (!copies)
                print "has no copies"
            else if (moved > copies)
                print "moves " moved " numbers to uniform registers before " copies " copies"
        }' "$1"
}

# Disassembling takes longer than everything else.
if [[ -n $nvdisasm ]]; then
    # shellcheck disable=SC2016 # the numbers are those of the inner shell
    rows | awk '$4 == "fwd_sm90" { print $1 }' | xargs -P "$(nproc)" -I{} sh -c '"$1" -c "$2/$4.sm_90a.cubin" >"$3/$4.sass"' - "$nvdisasm" "$folder" "$scratch" {} ||
        fail 'what was built cannot be disassembled'
fi

count=0
while read -r id d_qk tile_n source role features; do
    code=$folder/$id.sm_90a
    [[ -e $code.ptxas ]] || fail "$id has not been built"
    found=$(report_complaints "$code.ptxas")
    [[ -z $found ]] || fail "$id: $found"
    count=$((count + 1))
    [[ $source == fwd_sm90 ]] || continue # others wait for each product by itself, as they are written
    if [[ -n $nvdisasm ]]; then
        found=$(code_complaints "$scratch/$id.sass" "$d_qk" "$tile_n" "$role"; copy_complaints "$scratch/$id.sass")
        [[ -z $found ]] || fail "$id $found"
    fi
    [[ $role != PLAIN || -n $features ]] || victim="$id $d_qk $tile_n $role"
done < <(rows)
((count > 0)) || fail 'kernels.def has no row of fwd_sm90'

plants=0
planted() { # planted COMPLAINT FOUND
    [[ $2 == *"$1"* ]] || fail "planted '$1', found '$2'"
    plants=$((plants + 1))
}

read -r id d_qk tile_n role <<<"$victim"
line="ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register resources"
planted 'serialized' "$(report_complaints <(cat "$folder/$id.sm_90a.ptxas" - <<<"$line"))"
line='ptxas info    : setmaxnreg ignored to maintain minimum register requirements.'
planted 'setmaxnreg ignored' "$(report_complaints <(cat "$folder/$id.sm_90a.ptxas" - <<<"$line"))"

if [[ -z $nvdisasm ]]; then
    echo 'skipped: the machine code of fwd_sm90: there is no nvdisasm here'
    echo "hopper_build: $count kernels as written, $plants planted violations found"
    exit 0
fi
altered() { # altered AWK: complaints on the listing as AWK prints it
    awk "$1" "$scratch/$id.sass" >"$scratch/altered"
    code_complaints "$scratch/altered" "$d_qk" "$tile_n" "$role"
}
planted 'waits for PV after' "$(altered '{ print } /DEPBAR\.LE gsb0, 0x1/ { sub(/0x1/, "0x0"); print }')"
planted 'of the next weights' "$(altered '!/MUFU\.EX2/ || ++n % 2 { print }')"
planted 'products in its main loop' "$(altered '!/HGMMA.*tnspB/ || ++n % 2 { print }')"
planted 'before all of them are in flight' "$(altered '/HGMMA.*tnspB/ { print "WARPGROUP.DEPBAR.LE gsb0, 0x1" } { print }')"
planted 'has no loop' "$(altered '!/HGMMA.*tnspB/ { print }')"
planted 'to uniform registers before' "$(copy_complaints <(awk '/UTMALDG/ { print "R2UR UR8, R14 ;"; print "R2UR UR9, R13 ;" } { print }' "$scratch/$id.sass"))"
planted 'has no copies' "$(copy_complaints <(grep -v UTMALDG "$scratch/$id.sass"))"
planted 'never waits' "$(altered '!/DEPBAR\.LE gsb0, 0x0/ { print }')"
echo "hopper_build: $count kernels as written, their waits where they were put; $plants planted violations found"
