# test.mk: `make test` runs every test that needs no GPU, then sums them up in one line.
#
# The sanitizers and the coverage are the same rules again, in a build folder of their own with
# other flags: see `variant` below.
.PHONY: test test-unit test-threads test-property sanitize tsan coverage

SUPPORT_OBJECTS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/support/*.c))
UNIT_TESTS      := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/unit/test_*.c))
PROPERTY_TESTS  := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/property/test_*.c))
TEST_OBJECTS    := $(SUPPORT_OBJECTS) \
                   $(patsubst $(BUILD)/%,$(BUILD)/obj/%.o,$(UNIT_TESTS) $(PROPERTY_TESTS))

# What TSan watches: the tests in which more than one thread is at work.
THREAD_TESTS    := $(BUILD)/tests/unit/test_threads $(BUILD)/tests/unit/test_pool

$(BUILD)/libsupport.a: $(SUPPORT_OBJECTS)
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/tests/%: $(BUILD)/obj/tests/%.o $(BUILD)/libsupport.a $(BUILD)/liblab.a $(BUILD)/libattest.a
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) $(TEST_LDFLAGS) -o $@ $^ $(JANSSON) -lcmocka $(LDLIBS)

comma := ,

# Calls that reserve memory go through the test, which counts those made during a run.
$(BUILD)/tests/unit/test_memory: TEST_LDFLAGS := \
    $(addprefix -Wl$(comma)--wrap=,malloc calloc realloc aligned_alloc posix_memalign memalign mmap)
$(BUILD)/tests/unit/test_pool: TEST_LDFLAGS := -Wl,--wrap=pthread_create

# test_reload loads the shared library by this path.
$(BUILD)/obj/tests/unit/test_reload.o: CPPFLAGS += -DLIBATTEST_SO='"$(abspath $(BUILD))/libattest.so"'
$(BUILD)/tests/unit/test_reload: | $(BUILD)/libattest.so

.SECONDARY: $(TEST_OBJECTS)
-include $(TEST_OBJECTS:.o=.d)

test-unit: $(UNIT_TESTS)
	@tests/run.sh $(UNIT_TESTS)

test-threads: $(THREAD_TESTS)
	@tests/run.sh $(THREAD_TESTS)

test-property: $(PROPERTY_TESTS)
	@tests/run.sh $(PROPERTY_TESTS)

JOBS    := -j$(shell nproc)

# $(call variant,NAME,FLAGS): make again in $(BUILD)/NAME with FLAGS added to every compilation.
variant  = $(MAKE) --no-print-directory $(JOBS) BUILD=$(BUILD)/$(1) EXTRA_CFLAGS="$(2)"

ASAN    := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
TSAN    := -fsanitize=thread
GCOV    := --coverage -fprofile-update=atomic -DATT_AMX_EMULATE

# TSan's shadow memory does not fit every randomised address layout; where the layout can be fixed, it is.
STEADY  := $(shell setarch -R true 2>/dev/null && echo setarch -R)

# A variant runs the fixed seed over fewer problems than `test-property` does.
sanitize:
	@ATTEST_PROPERTY_COUNT=60 $(call variant,asan,$(ASAN)) OPT="-O1 -g" test-unit test-property

tsan:
	@$(STEADY) $(call variant,tsan,$(TSAN)) OPT="-O1 -g" test-threads

coverage:
	@find $(BUILD)/coverage -name '*.gcda' -delete 2>/dev/null || true
	@ATTEST_PROPERTY_COUNT=60 $(call variant,coverage,$(GCOV)) CC=gcc OPT="-O1 -g" \
	    test-unit test-property
	@BUILD=$(BUILD) tests/coverage.sh

# Built once here, so that the runners below find everything in place.
test:
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory $(JOBS) all $(UNIT_TESTS) $(PROPERTY_TESTS)
	@tests/run.sh -v $(foreach target,$(TEST_TARGETS),"$(MAKE) --no-print-directory $(target)")

TEST_TARGETS := test-layers test-unit test-property test-cli test-numpy test-install sanitize tsan coverage
