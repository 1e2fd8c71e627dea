# cli.mk: `make test-cli` drives the program as a user would.
.PHONY: test-cli
# The longest begin first.
CLI_LONGEST := $(addprefix tests/cli/,test_report.sh test_variants.sh test_pages.sh)
CLI_TESTS := $(CLI_LONGEST) $(filter-out $(CLI_LONGEST),$(wildcard tests/cli/test_*.sh))
# As in test.mk: these tests time something.
CLI_TIMING_TESTS := $(addprefix tests/cli/,test_bench.sh test_certify.sh test_peers.sh)

# The program with the clock of tests/support/simulated_clock.h. Suites and devices are searched beside the program.
SIMULATED_PROGRAM := $(BUILD)/tests/simulated/attest
SIMULATED_START   := $(BUILD)/obj/tests/cli/simulated_audit.o
-include $(SIMULATED_START:.o=.d)
$(SIMULATED_PROGRAM): $(CLI_OBJECTS) $(SIMULATED_START) $(BUILD)/libsupport.a $(BUILD)/liblab.a $(BUILD)/libattest.a
	@mkdir -p $(@D)
	@ln -sfn ../../suites ../../devices $(@D)
	$(call short,LD,$@)$(CC) $(ALL_CFLAGS) $(LDFLAGS) $(SIMULATED_CLOCK) -o $@ $^ $(JANSSON) $(LDLIBS)

test-cli: all virtual $(SIMULATED_PROGRAM)
	@BUILD=$(BUILD) CC='$(CC)' tests/run.sh -j $(shell nproc) $(filter-out $(CLI_TIMING_TESTS),$(CLI_TESTS)) alone $(CLI_TIMING_TESTS)

# Runs are intercepted by the test, which simulates cheating kernels.
$(BUILD)/tests/unit/test_bench: TEST_LDFLAGS := -Wl,--wrap=att_plan_run,--wrap=att_merge_run,--wrap=lab_clock_ns

# Whether cheats are caught by their times on this machine's own clock. Another program on the same cores can hide a cheat, so these
# are no part of `make test`, which audits on a simulated clock; a release needs them.
.PHONY: test-timing
test-timing: all
	@BUILD=$(BUILD) CC='$(CC)' tests/run.sh tests/timing/test_audit_clock.sh tests/timing/test_peers_clock.sh
