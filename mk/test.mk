# test.mk: `make test` runs every test that needs no GPU, then prints a one-line summary.
#
# The sanitizers and the coverage use the same rules, in their own build folders with other flags: see `variant` below.
.PHONY: test test-core test-counted test-runner test-unit test-threads test-property test-suites sanitize tsan coverage

SUPPORT_OBJECTS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/support/*.c))
UNIT_TESTS      := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/unit/test_*.c))
PROPERTY_TESTS  := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/property/test_*.c))
TEST_OBJECTS    := $(SUPPORT_OBJECTS) \
                   $(patsubst $(BUILD)/%,$(BUILD)/obj/%.o,$(UNIT_TESTS) $(PROPERTY_TESTS))

# The tests for TSan: those in which more than one thread works; every operation's are in a file of their own.
THREAD_TESTS    := $(filter %threads,$(UNIT_TESTS)) $(addprefix $(BUILD)/tests/unit/,test_pool test_cuda_module test_workers)

$(BUILD)/libsupport.a: $(SUPPORT_OBJECTS)
	@rm -f $@
	$(call short,AR,$@)$(AR) rcs $@ $^

$(BUILD)/tests/%: $(BUILD)/obj/tests/%.o $(BUILD)/libsupport.a $(BUILD)/liblab.a $(TEST_IMAGES) $(BUILD)/libattest.a
	@mkdir -p $(@D)
	$(call short,LD,$@)$(CC) $(ALL_CFLAGS) $(LDFLAGS) $(TEST_LDFLAGS) $(images_first) -o $@ $^ $(JANSSON) -lcmocka $(LDLIBS)

comma := ,

# Allocation calls go through the test, which counts those made during a run.
$(BUILD)/tests/unit/test_memory: TEST_LDFLAGS := \
    $(addprefix -Wl$(comma)--wrap=,malloc calloc realloc aligned_alloc posix_memalign memalign mmap)
$(BUILD)/tests/unit/test_pool: TEST_LDFLAGS := -Wl,--wrap=pthread_create

$(BUILD)/tests/unit/test_atomic_file: TEST_LDFLAGS := $(addprefix -Wl$(comma)--wrap=,fsync rename linkat access)

# Times that no other program can disturb: see tests/support/simulated_clock.h.
SIMULATED_CLOCK := $(addprefix -Wl$(comma)--wrap=,lab_clock_ns lab_entropy lab_subject_prepare lab_prepared_run att_plan_run att_backward_run \
    att_merge_run att_moe_run pthread_join lab_hands_copy lab_hands_fill lab_plot_hash_inputs lab_tensors_turn lab_tensors_poison_outputs lab_verify_outputs \
    lab_device_timer_sample)
$(BUILD)/tests/unit/test_audit: TEST_LDFLAGS := $(SIMULATED_CLOCK)

# test_reload loads the shared library by this path.
$(BUILD)/obj/tests/unit/test_reload.o: CPPFLAGS += -DLIBATTEST_SO='"$(abspath $(BUILD))/libattest.so"'
$(BUILD)/tests/unit/test_reload: | $(BUILD)/libattest.so

# These compile a kernel with its instructions in plain C, for hardly a second of work: more optimisation takes longer than they run.
$(addprefix $(BUILD)/obj/tests/unit/,test_backward_amx.o test_moe_amx.o): ISA_CFLAGS := -Og $(LINES_ALONE)

.PRECIOUS: $(BUILD)/obj/%.o
-include $(TEST_OBJECTS:.o=.d)

# Tests that time something run alone on the machine.
TIMING_TESTS    := $(addprefix $(BUILD)/tests/unit/,test_bench test_bench_gpu test_certify test_doctor test_peer)

# The scripts that set up and count the tests are tested first.
test-runner:
	@tests/run.sh tests/test_run.sh tests/test_setup.sh tests/test_make.sh

test-unit: $(UNIT_TESTS)
	@tests/run.sh -j $(shell nproc) $(filter-out $(TIMING_TESTS),$(UNIT_TESTS)) alone $(TIMING_TESTS)

test-threads: $(THREAD_TESTS)
	@tests/run.sh -j $(shell nproc) $(THREAD_TESTS)

# The longest one in parts, side by side. That of an instruction set that this machine lacks has no tests, and is skipped.
RANDOM_PARTS    = $(foreach isa,$(ISAS),*gradients*[$(isa)]) *problems*
PROPERTY_PARTS  = $(foreach part,$(RANDOM_PARTS),"$(BUILD)/tests/property/test_random $(part)") $(filter-out %/test_random,$(PROPERTY_TESTS))
test-property: $(PROPERTY_TESTS)
	@tests/run.sh -j $(shell nproc) $(PROPERTY_PARTS)

# SUITE_ISAS limits the instruction sets.
test-suites: $(BUILD)/attest
	@BUILD=$(BUILD) tests/suites.sh $(SUITE_ISAS)

# Both at once, for the variants, with one summary line. The longest begin first, so that no core waits for them at the
# end. Times do not count in instrumented code: what measures them need not run alone.
test-core: $(BUILD)/libattest.a $(UNIT_TESTS) $(PROPERTY_TESTS)
	@tests/run.sh -j $(shell nproc) $(TIMING_TESTS) $(PROPERTY_PARTS) $(filter-out $(TIMING_TESTS),$(UNIT_TESTS))

JOBS     = -j$(shell nproc)

# $(call variant,NAME,FLAGS): make again in $(BUILD)/NAME with FLAGS added to every compilation. Only the plain build
# checks warnings: instrumented code makes the compiler warn about correct code.
variant  = $(MAKE) -s --no-print-directory $(JOBS) BUILD=$(BUILD)/$(1) CUDA_OUT=$(CUDA_OUT) WARN=-Wall OPT="-O1 -g1" EXTRA_CFLAGS="$(2)"

# AMX is emulated in the variants for memory and coverage, so that its kernel is included on every machine with
# AVX512-BF16; without AVX512-BF16, AVX-512 and AVX512-BF16 are emulated.
EMULATED := -DATT_AMX_EMULATE $(if $(shell grep -om1 avx512_bf16 /proc/cpuinfo),,-DATT_AVX512_EMULATE)
ASAN    := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer $(EMULATED)
TSAN    := -fsanitize=thread
GCOV    := --coverage -fprofile-update=atomic

# TSan's shadow memory does not fit every randomised address layout; if the layout can be fixed, it is.
STEADY   = $(shell setarch -R true 2>/dev/null && echo setarch -R)

# A variant runs the fixed seed over fewer problems than `test-property` does. An allocation that is too large must fail
# under ASan as it does without it. gcc's -O1 inlines the CPU kernels into functions that take up to four times as long to
# compile with all checks as with -Og, and run no faster. Digests are most of what some tests compute: they are checked in the plain
# build and by the fuzzers.
asan_variant = ASAN_OPTIONS=$(1) ATTEST_INSTRUMENTED=1 ATTEST_PROPERTY_COUNT=60 $(call variant,asan,$(ASAN)) KERNEL_OPT=-Og DIGEST_OPT="-O3 -fno-sanitize=all"
$(BUILD)/obj/src/base/sha256.o: ISA_CFLAGS := $(DIGEST_OPT)
sanitize:
	@$(call asan_variant,allocator_may_return_null=1) test-core

# The fakes compute whole problems; only the code that calls them is tested.
$(filter-out $(FAKE_DRIVER_OBJECTS) %/fake_backend.o,$(FAKE_CUDA_OBJECTS)): ISA_CFLAGS := -O3 -fno-sanitize=all

tsan:
	@ATTEST_INSTRUMENTED=1 $(STEADY) $(call variant,tsan,$(TSAN)) test-threads

# Only src/ is counted, and only src/ is slowed down by counting. Tests that time something, and some long ones of the
# laboratory, repeat the same lines: they reach no line that others do not. A build of its own: counters under ASan make a
# test of threads take four times as long.
COUNTED_TESTS = $(filter-out $(TIMING_TESTS) $(NOTHING_TO_COUNT) $(addprefix $(BUILD)/tests/unit/,test_attested test_audit test_chosen test_host_tests test_hopper_barriers test_masks test_moe_threads \
                test_report test_statements test_stats test_threads test_tune test_verdict test_workers),$(UNIT_TESTS))
uncounted    := %/test_moe_random
# These link no part of src/: nm shows no counters in them.
NOTHING_TO_COUNT = $(addprefix $(BUILD)/tests/unit/test_,access atomic_file bf16_pairs checked clean_text global_memory json_load markup npy nvml \
                   plan_device plot progress ptx races races_model results spawn text tune_search)
# What lies outside src/ is neither counted nor emulated: the build with counters takes the objects of the plain build, the folder
# UNCOUNTED, except of tests that ask what is emulated, or load the library of their own build.
OWN_OBJECTS       = $(patsubst %.c,$(BUILD)/obj/%.o,$(shell grep -lE 'if.* ATT_[A-Z0-9]+_EMULATE|LIBATTEST_SO' $(wildcard tests/*/*.c)))
UNCOUNTED_OBJECTS = $(filter-out $(OWN_OBJECTS),$(LAB_OBJECTS) $(CLI_OBJECTS) $(SUPPORT_OBJECTS) $(FAKE_CUDA_OBJECTS) \
                    $(addprefix $(BUILD)/obj/tests/fake_cuda/,fake_compiler.o fake_cublas.o fake_nvml.o) \
                    $(patsubst $(BUILD)/%,$(BUILD)/obj/%.o,$(COUNTED_TESTS) $(PROPERTY_TESTS)))
ifneq ($(UNCOUNTED),)
$(UNCOUNTED_OBJECTS): $(BUILD)/obj/%.o: $(UNCOUNTED)/obj/%.o
	@mkdir -p $(@D)
	@ln -f $< $@
endif
test-counted: $(BUILD)/libattest.a $(COUNTED_TESTS) $(filter-out $(uncounted),$(PROPERTY_TESTS))
	@tests/run.sh -j $(shell nproc) $(filter-out $(uncounted),$(PROPERTY_PARTS)) $(COUNTED_TESTS)

$(LIB_OBJECTS): override EXTRA_CFLAGS += $(COUNTED)
coverage: $(UNCOUNTED_OBJECTS)
	@find $(BUILD)/coverage -name '*.gcda' -delete 2>/dev/null || true
	@failed=0; ATTEST_INSTRUMENTED=1 ATTEST_PROPERTY_COUNT=30 VERIFY_SUITES="merge moe_edge" $(call variant,coverage,$(EMULATED)) DIGEST_OPT=-O3 COUNTED="$(GCOV)" UNCOUNTED=$(BUILD) LDFLAGS=--coverage CC=gcc \
	    SUITE_ISAS='avx512_bf16 amx' test-counted test-suites || failed=1; \
	    BUILD=$(BUILD) tests/coverage.sh && exit $$failed

# Runners that use one core run side by side; then those that use all of them, or time something, one after the other.
# The longest of the first come first. Everything that they share is built before: two makes must not build the same file.
ONE_CORE_RUNNERS := test-runner test-python test-install test-packages test-examples test-context-parallel test-browser test-numpy \
                    test-jumps test-cuda-build test-docs test-layers test-budgets test-rewrite test-evidence test-ladder
TEST_RUNNERS     := $(ONE_CORE_RUNNERS) test-hopper test-unit test-property test-suites test-virtual test-faults test-cli test-other-compiler \
                    test-aarch64 test-fuzz sanitize virtual-sanitize tsan coverage
SHARED_BY_RUNNERS = virtual $(if $(PYTHON_INCLUDE),wheel-parts) $(TEST_PROGRAM) $(FAKE_LIBS) $(addprefix $(BUILD)/,evidence_table attestation_table self_check_table \
                    drawing_svg ladder_table bench/call_cost tests/numpy/dump_oracle)
BEFORE_RUNNERS    = all gpu-build $(UNIT_TESTS) $(PROPERTY_TESTS) $(if $(filter $(ONE_CORE_RUNNERS),$(TEST_RUNNERS)),$(SHARED_BY_RUNNERS))
runner            = "$(MAKE) --no-print-directory $(1)"
test: export WERROR := 1
test:
	@BUILD=$(BUILD) scripts/setup.sh test
	@$(MAKE) --no-print-directory $(JOBS) $(BEFORE_RUNNERS)
	@tests/run.sh -v -j $(shell nproc) $(foreach name,$(filter $(ONE_CORE_RUNNERS),$(TEST_RUNNERS)),$(call runner,$(name))) \
	    alone $(foreach name,$(filter-out $(ONE_CORE_RUNNERS),$(TEST_RUNNERS)),$(call runner,$(name)))

# The same commands on a Debian 12 with only git and make: see tests/bare.sh. BARE_RUNNERS='test-unit test-cli' runs
# only these parts of `make test` there.
.PHONY: test-bare
test-bare:
	@BUILD=$(BUILD) BARE_RUNNERS='$(BARE_RUNNERS)' tests/bare.sh
