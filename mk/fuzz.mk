# fuzz.mk: `make fuzz SECONDS=60` runs every harness of tests/fuzz that long; `make test` runs `make test-fuzz`.
#
# A harness is a libFuzzer program, built by clang with the address and undefined-behaviour sanitizers in its own build
# folder: the same rules with other flags, like the variants of test.mk. docs/fuzzing.md says how to reproduce a crash.
FUZZ_CC      ?= clang
FUZZ         := $(BUILD)/fuzz
FUZZ_FLAGS    = -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer $(EMULATED)
FUZZ_SOURCES := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ_NAMES   := $(basename $(notdir $(FUZZ_SOURCES)))
FUZZ_PARTS   := $(patsubst %.c,$(BUILD)/obj/%.o,$(filter-out $(FUZZ_SOURCES),$(wildcard tests/fuzz/*.c)))
FUZZ_OBJECTS := $(patsubst %.c,$(BUILD)/obj/%.o,$(FUZZ_SOURCES))

# The harnesses explore the library, not themselves: their own branches are not instrumented.
$(FUZZ_PARTS) $(FUZZ_OBJECTS): override EXTRA_CFLAGS += -O2 -fno-sanitize=fuzzer-no-link

# Nor are those of the fakes: copying a guard band byte by byte took a tenth of the time of fuzz_api_driver.
$(BUILD)/obj/tests/fake_cuda/%.o: override EXTRA_CFLAGS += $(UNEXPLORED)

$(BUILD)/libfuzz_parts.a: $(FUZZ_PARTS)
	@rm -f $@
	$(call short,AR,$@)$(AR) rcs $@ $^

# The program without its main().
$(BUILD)/libcli.a: $(filter-out %/main.o,$(CLI_OBJECTS))
	@rm -f $@
	$(call short,AR,$@)$(AR) rcs $@ $^

$(BUILD)/tests/fuzz/%: $(BUILD)/obj/tests/fuzz/%.o $(BUILD)/libfuzz_parts.a $(BUILD)/libcli.a $(BUILD)/liblab.a $(BUILD)/libattest.a
	@mkdir -p $(@D)
	$(call short,LD,$@)$(CC) $(ALL_CFLAGS) -fsanitize=fuzzer $(LDFLAGS) -o $@ $^ $(JANSSON) $(LDLIBS)

-include $(FUZZ_PARTS:.o=.d) $(FUZZ_OBJECTS:.o=.d)
.SECONDARY: $(FUZZ_OBJECTS)

.PHONY: fuzz-programs fuzz-build fuzz fuzz-million test-fuzz fuzz-count
fuzz-programs: $(addprefix $(BUILD)/tests/fuzz/,$(FUZZ_NAMES)) $(FAKE_LIBS)

# No nvcc: there, kernels are source texts, compiled by the library that ATTEST_LIBNVRTC names.
fuzz-build:
	@$(MAKE) -s --no-print-directory $(JOBS) BUILD=$(FUZZ) CUDA_OUT=$(FUZZ)/cuda NVCC= CC='$(FUZZ_CC)' WARN=-Wall \
	    OPT='-O1 -gline-tables-only' EXTRA_CFLAGS='$(FUZZ_FLAGS)' UNEXPLORED='-O2 -fno-sanitize=fuzzer-no-link' fuzz-programs $(if $(PYTHON_INCLUDE),python)

# A compiler that can build such programs, checked only when needed.
fuzz_ready   = $(shell echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | \
                   $(FUZZ_CC) -fsanitize=fuzzer,address -x c -o /dev/null - 2>/dev/null && echo yes)
fuzz_python  = $(if $(and $(PYTHON_INCLUDE),$(PYTHON_WITH_NUMPY)),tests/fuzz/campaign.sh run fuzz_python $(1),\
                   echo skipped: fuzz_python: python3-dev and python3-numpy are needed)

# $(call fuzz_all,SECONDS,AT ONCE,keep): build and run them all; one line each.
fuzz_all     = $(if $(fuzz_ready),$(MAKE) --no-print-directory fuzz-build && \
    FUZZ=$(FUZZ) VIRTUAL=$(abspath $(VIRTUAL)) FUZZ_CC='$(FUZZ_CC)' PYTHON=$(PYTHON_WITH_NUMPY) $(STEADY) tests/run.sh -j $(2) \
    $(foreach name,$(FUZZ_NAMES) fuzz_api_virtual,"tests/fuzz/campaign.sh run $(name) $(1) $(3)") "$(call fuzz_python,$(1))",\
    echo 'skipped: tests/fuzz: a clang with libFuzzer is needed (clang and libclang-rt-dev)')

SECONDS     ?= 60
fuzz: virtual
	@$(call fuzz_all,$(SECONDS),$(shell nproc),keep)

# Until a million executions of each since its last finding, counted over all such runs: it may be ended and begun again.
# Not fuzz_api_virtual, which would take 15 hours of a processor.
fuzz-million:
	@$(MAKE) --no-print-directory fuzz-build && \
	    FUZZ=$(FUZZ) FUZZ_CC='$(FUZZ_CC)' PYTHON=$(PYTHON_WITH_NUMPY) $(STEADY) tests/run.sh -j $(shell nproc) \
	    $(foreach name,$(FUZZ_NAMES) fuzz_python,"tests/fuzz/campaign.sh reach $(name) 1000000")

# More at once than there are processors: each has 30 seconds, so that all finish soon. A fixed seed, so that the verdict
# is the same for the same code: the search for something new is `make fuzz`.
TEST_FUZZ_SECONDS ?= 30
TEST_FUZZ_AT_ONCE ?= $(shell echo $$((6 * $$(nproc))))
test-fuzz: virtual
	@export FUZZ_SEED=1; $(call fuzz_all,$(TEST_FUZZ_SECONDS),$(TEST_FUZZ_AT_ONCE))

# The totals of all runs: those of the committed counts, and those since.
fuzz-count:
	@FUZZ=$(FUZZ) tests/fuzz/campaign.sh count
