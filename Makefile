# attest: `make` builds, `make run` demonstrates, `make test` tests. Everything is built under $(BUILD). V=1 prints
# whole commands.
SHELL       := /bin/bash
.DEFAULT_GOAL := all
VERSION     := $(shell sed -n 's/.*ATT_VERSION_STRING "\(.*\)"/\1/p' include/attest.h)
SOVERSION   := $(firstword $(subst ., ,$(VERSION)))
# CROSS=aarch64-linux-gnu- is the prefix of a cross compiler's name: see mk/cross.mk.
BUILD       ?= build$(if $(CROSS),/$(notdir $(CROSS:-=)))
ifneq ($(CROSS),)
ifeq ($(origin CC),default)
CC          := $(CROSS)gcc
endif
ifeq ($(origin AR),default)
AR          := $(CROSS)ar
endif
endif
CC          ?= cc
AR          ?= ar
# What runs during the build is compiled for this machine.
HOSTCC      ?= $(if $(CROSS),cc,$(CC))
# The processor that is compiled for: x86_64, aarch64.
ARCH        := $(firstword $(subst -, ,$(or $(notdir $(CROSS)),$(shell $(CC) -dumpmachine 2>/dev/null),$(shell uname -m))))

# Warnings are errors with WERROR=1, as in `make test` and CI: a newer compiler may warn about more than ours does.
WARN        := -Wall -Wextra -Wshadow -Wconversion -pedantic $(if $(WERROR),-Werror)
OPT         ?= -O3 -g
CPPFLAGS    += -Iinclude -Isrc -I. -D_GNU_SOURCE
# Results must not depend on the compiler: no contraction or reassociation that we did not write.
ALL_CFLAGS   = -std=c11 $(OPT) $(WARN) -fPIC -fvisibility=hidden -ffp-contract=off -pthread \
               -MMD -MP $(EXTRA_CFLAGS) $(CFLAGS)

# What the library computes.
OPERATIONS   := $(shell sed -nE 's/^ATT_OPERATION\((.*)\)$$/\1/p' kernels/operations.def)

# The instruction sets of each processor. In a build for another one, their rows stay, and refuse: src/*/cpu/absent.
ISAS_x86_64  := avx2 avx512 avx512_bf16 amx
ISAS_aarch64 := neon
ISAS_ABSENT  := $(filter-out $(ISAS_$(ARCH)),$(ISAS_x86_64) $(ISAS_aarch64))
LIB_SOURCES := $(filter-out $(foreach isa,$(ISAS_ABSENT),%_$(isa).c),$(wildcard src/*/*.c src/*/*/*.c src/*/cpu/absent/*.c))
LAB_SOURCES := $(wildcard lab/*/*.c)
CLI_SOURCES := $(wildcard cli/*.c)
# The kernels of the CPU take longest to compile: they come first, so that no core waits for them at the end.
CPU_SOURCES := $(wildcard src/*/cpu/*.c)
LIB_OBJECTS := $(patsubst %.c,$(BUILD)/obj/%.o,$(filter $(CPU_SOURCES),$(LIB_SOURCES)) $(filter-out $(CPU_SOURCES),$(LIB_SOURCES)))
LAB_OBJECTS := $(LAB_SOURCES:%.c=$(BUILD)/obj/%.o)
CLI_OBJECTS := $(CLI_SOURCES:%.c=$(BUILD)/obj/%.o)

# One file per instruction set; only these files may use its instructions.
ISAS := portable $(ISAS_x86_64) $(ISAS_aarch64)
ISA_avx2 := -mavx2 -mfma -mf16c
ISA_avx512 := -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512
ISA_avx512_bf16 := $(ISA_avx512) -mavx512bf16
ISA_amx := -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512bf16 -mamx-tile -mamx-bf16 -mprefer-vector-width=512
# In the order of the source, a tile fits the registers; gcc's first scheduling, which x86-64 does without, loads more
# operands ahead and spills sums. clang does not know the flag, and warns.
ISA_neon := -fno-schedule-insns -Wno-ignored-optimization-argument
# A test build in which AVX-512 is plain C (src/cpu/simd_wide.h) must contain none of its instructions.
ifneq ($(findstring ATT_AVX512_EMULATE,$(EXTRA_CFLAGS)),)
ISA_avx512 := $(ISA_avx2)
ISA_avx512_bf16 := $(ISA_avx2)
endif
# Line tables alone: to follow the variables of these files takes as long as to compile them, and -O3 leaves few to see.
LINES_ALONE := $(if $(filter -g,$(OPT)),-g1)
$(foreach isa,$(ISAS),$(eval $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard src/*/cpu/*_$(isa).c)): ISA_CFLAGS := $(ISA_$(isa)) $(LINES_ALONE) $(KERNEL_OPT)))

# gcc 12 does not see that a count is read only if it was set. The file belongs to the judge, whose statements its text binds.
$(BUILD)/obj/lab/attention/array_files.o: ISA_CFLAGS = $(if $(findstring clang,$(shell $(CC) --version 2>/dev/null)),,-Wno-maybe-uninitialized)

JANSSON     ?= $(firstword $(wildcard $(SYSROOT)/usr/lib/$(ARCH)*/libjansson.a) -ljansson)
LDLIBS      += -pthread -lm -ldl

# $(call short,WHAT,FILE): at the beginning of a command, prints these two words instead of the command; nothing under
# `make -s`. $(quiet): for a command that is not worth a line.
V           ?= 0
SILENT      := $(findstring s,$(firstword -$(MAKEFLAGS)))
short        = $(if $(filter 1,$(V)),,@$(if $(SILENT),,printf '  %-5s %s\n' $(1) '$(2)';) )
quiet        = $(if $(filter 1,$(V)),,@)

.PHONY: all run bench clean fmt lint
all: $(BUILD)/obj/has_jansson $(BUILD)/libattest.so $(BUILD)/libattest.a $(BUILD)/attest

# The only library that the program needs. Asked once, before anything is compiled.
$(BUILD)/obj/has_jansson:
	@mkdir -p $(@D)
	@echo '#include <jansson.h>' | $(CC) $(CPPFLAGS) $(CFLAGS) -E - >/dev/null 2>&1 || \
	    { echo 'attest needs the header jansson.h: `make run` installs it, or the package libjansson-dev (Fedora: jansson-devel)' >&2; exit 1; }
	@touch $@
$(LAB_OBJECTS) $(CLI_OBJECTS): | $(BUILD)/obj/has_jansson

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(call short,CC,$<)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) $(ISA_CFLAGS) -c $< -o $@

$(BUILD)/libattest.a: $(LIB_OBJECTS)
	@rm -f $@
	$(call short,AR,$@)$(AR) rcs $@ $^

$(BUILD)/liblab.a: $(LAB_OBJECTS)
	@rm -f $@
	$(call short,AR,$@)$(AR) rcs $@ $^

# nodelete: the threads of a live context run the library's code even after a dlclose.
$(BUILD)/libattest.so.$(VERSION): $(LIB_OBJECTS) src/attest.map
	$(call short,LD,$@)$(CC) -shared $(ALL_CFLAGS) -Wl,-soname,libattest.so.$(SOVERSION) -Wl,--version-script=src/attest.map \
	    -Wl,--no-undefined -Wl,-z,relro,-z,now,-z,nodelete $(LDFLAGS) -o $@ $(LIB_OBJECTS) $(LDLIBS)

$(BUILD)/libattest.so: $(BUILD)/libattest.so.$(VERSION)
	@ln -sf $(<F) $(BUILD)/libattest.so.$(SOVERSION)
	@ln -sf $(<F) $@

$(BUILD)/attest: $(CLI_OBJECTS) $(BUILD)/liblab.a $(BUILD)/libattest.a
	$(call short,LD,$@)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(JANSSON) $(LDLIBS)

include $(sort $(wildcard mk/*.mk))

-include $(LIB_OBJECTS:.o=.d) $(LAB_OBJECTS:.o=.d) $(CLI_OBJECTS:.o=.d)

clean:
	rm -rf $(BUILD)
