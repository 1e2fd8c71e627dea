# cuda.mk: machine code of every CUDA row of kernels.def, compiled by nvcc and embedded in the library.
#
# A row costs one run of the front end and one of ptxas per family: sm_80, which every 8.x runs (src/cuda/row.h), and
# sm_90a. Without nvcc the library contains only the source text, and a machine with NVRTC compiles it when needed.
NVCC        ?= $(firstword $(shell command -v nvcc) $(wildcard $(addsuffix /bin/nvcc,$(CUDA_HOME) /usr/local/cuda)))
# 12.0 is the first version with sm_90a, and the oldest supported driver.
ifeq ($(and $(NVCC),$(shell test "$$($(NVCC) --version | sed -n 's/.*release \([0-9]*\).*/\1/p')" -ge 12 2>/dev/null && echo new)),)
override NVCC :=
endif
override NVCC := $(NVCC)
PTXAS       ?= $(dir $(NVCC))ptxas
FATBINARY   ?= $(dir $(NVCC))fatbinary
# Same for NVRTC: see src/cuda/jit.c.
NVCC_FLAGS  ?= -std=c++17 -I$(KERNELS) -I.
PTXAS_FLAGS ?= -O3
KERNELS     ?= kernels
KERNELS_DEF ?= $(KERNELS)/kernels.def

# Does not depend on the C compiler: a build folder with other C flags reuses its parent's.
CUDA_OUT    ?= $(BUILD)/cuda
CUDA_TEXTS  := $(sort $(wildcard $(addprefix $(KERNELS)/*.,cu cuh h)))

# $(call cuda_row,ID,SOURCE,COMPUTE CAPABILITIES): the rules of one row; rows.mk calls it.
define cuda_row
CUDA_IDS += $(1)
$(if $(filter 8%,$(3)),$(call cuda_front_end,$(1),$(2),80))
$(if $(filter 9%,$(3)),$(call cuda_front_end,$(1),$(2),90a))
$(if $(filter 8%,$(3)),$(call cuda_cubin,$(1),80))
$(if $(filter 9%,$(3)),$(call cuda_cubin,$(1),90a))
$(if $(filter 8%,$(3)),$(call cuda_fatbin,$(1).compute_80,ptx,80))
endef

# The names of functions that are not inlined contain a hash of the source path; the digest of a kernel must not depend
# on it.
CUDA_NEUTRAL := s/_INTERNAL_[0-9a-f]{8}_/_INTERNAL_00000000_/g

define cuda_front_end
-include $$(CUDA_OUT)/$(1).compute_$(3).d
$$(CUDA_OUT)/$(1).compute_$(3).ptx: $$(KERNELS)/$(2).cu $$(CUDA_OUT)/$(1).flags $$(CUDA_OUT)/nvcc.flags
	$$(call short,NVCC,$$@)$$(NVCC) -ptx -arch=compute_$(3) $$(NVCC_FLAGS) $$(shell cat $$(CUDA_OUT)/$(1).flags) \
	    -MMD -MP -MF $$(@:.ptx=.d) -MT $$@ -o $$@.new $$<
	@sed -E '$$(CUDA_NEUTRAL)' $$@.new >$$@
	@rm $$@.new

endef

# The report of ptxas on registers, spills and shared memory is kept beside the code.
define cuda_cubin
$(call cuda_fatbin,$(1).sm_$(2),cubin,$(2))
$$(CUDA_OUT)/$(1).sm_$(2).cubin: $$(CUDA_OUT)/$(1).compute_$(2).ptx
	$$(call short,PTXAS,$$@)$$(PTXAS) $$(PTXAS_FLAGS) -v -arch=sm_$(2) -o $$@ $$< >$$(@:.cubin=.ptxas) 2>&1 || \
	    { cat $$(@:.cubin=.ptxas) >&2; rm -f $$@; exit 1; }

endef

# The driver decompresses it: machine code shrinks to a quarter, PTX to a seventh.
define cuda_fatbin
CUDA_CODES += $$(CUDA_OUT)/$(1).fatbin
$$(CUDA_OUT)/$(1).fatbin: $$(CUDA_OUT)/$(1).$(2)
	@$$(FATBINARY) --compress-all --create=$$@ --image3=kind=$(patsubst cubin,elf,$(2)),sm=$(3),file=$$<

endef

# $(call cuda_keep,FILE,COMMANDS): write the output of the commands to a file, which is touched only if the output
# changes. Two concurrent makes never see each other's partial files.
cuda_keep = $(shell mkdir -p $(CUDA_OUT); new=$(1).$$$$.new; { $(2); } >$$new; cmp -s $$new $(1) && rm $$new || mv $$new $(1))

ifneq ($(MAKECMDGOALS),clean)
ifneq ($(NVCC),)
# Another compiler or other flags recompile everything.
$(call cuda_keep,$(CUDA_OUT)/nvcc.flags,echo '$(NVCC_FLAGS) $(PTXAS_FLAGS) $(CUDA_NEUTRAL)'; $(NVCC) --version)
include $(CUDA_OUT)/rows.mk
endif
# A kernel that is removed from the list must leave the library.
$(call cuda_keep,$(CUDA_OUT)/embedded.list,echo '$(CUDA_CODES) $(CUDA_TEXTS)')
endif

$(CUDA_OUT)/rows: scripts/cuda_rows.c src/cuda/flags.c src/cuda/shape.c $(wildcard src/*/cuda/*_bytes.c) src/cuda/flags.h src/cuda/row.h $(KERNELS_DEF)
	@mkdir -p $(@D)
	$(call short,LD,$@)$(HOSTCC) $(CPPFLAGS) -std=c11 $(WARN) -DKERNELS_DEF='"$(KERNELS_DEF)"' -o $@ $(filter %.c,$^)

$(CUDA_OUT)/rows.mk: $(CUDA_OUT)/rows
	@$< $(CUDA_OUT) >$@.new
	@mv $@.new $@

$(CUDA_OUT)/embedded.c: scripts/cuda_embed.sh $(CUDA_CODES) $(CUDA_TEXTS) $(CUDA_OUT)/embedded.list
	$(call short,EMBED,$@)scripts/cuda_embed.sh $(CUDA_CODES) $(CUDA_TEXTS) >$@.new
	@mv $@.new $@

EMBEDDED    := $(BUILD)/obj/cuda_embedded.o
LIB_OBJECTS += $(EMBEDDED)
$(BUILD)/libattest.a $(BUILD)/libattest.so.$(VERSION): $(EMBEDDED)

# $(call other_cuda_out,FILE): a target that is never up to date, if FILE was made from another CUDA_OUT: the files of this
# one may be older. The recipe of FILE notes its CUDA_OUT.
other_cuda_out = $(if $(filter $(CUDA_OUT),$(shell cat $(1).cuda_out 2>/dev/null)),,another-cuda-out)
note_cuda_out  = echo '$(CUDA_OUT)' >$@.cuda_out
.PHONY: another-cuda-out

$(EMBEDDED): $(CUDA_OUT)/embedded.c src/cuda/embed.h $(call other_cuda_out,$(EMBEDDED))
	@mkdir -p $(@D)
	$(call short,CC,$<)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c $< -o $@
	@$(note_cuda_out)

.PHONY: cuda
cuda: $(CUDA_CODES)

# The sizes of the kernels and of the library, printed when the library is relinked.
all: $(BUILD)/library_size.txt
$(BUILD)/library_size.txt: $(BUILD)/libattest.so.$(VERSION)
	@printf '%s: %d GPU kernels in %d images of %.1f MiB; the library is %.1f MiB, debug information included\n' \
	    $< $(words $(CUDA_IDS)) $(words $(CUDA_CODES)) \
	    "$$(cat /dev/null $(CUDA_CODES) | wc -c | awk '{ print $$1 / 1048576 }')" \
	    "$$(stat -Lc %s $< | awk '{ print $$1 / 1048576 }')" | tee $@
