# cli.mk: `make test-cli` drives the program as a user would.
.PHONY: test-cli
# The longest begin first.
CLI_LONGEST := $(addprefix tests/cli/,test_report.sh test_variants.sh test_pages.sh)
CLI_TESTS := $(CLI_LONGEST) $(filter-out $(CLI_LONGEST),$(wildcard tests/cli/test_*.sh))
# As in test.mk: these tests time something.
CLI_TIMING_TESTS := $(addprefix tests/cli/,test_audit.sh test_bench.sh test_certify.sh test_peers.sh)

test-cli: all virtual
	@BUILD=$(BUILD) CC='$(CC)' tests/run.sh -j $(shell nproc) $(filter-out $(CLI_TIMING_TESTS),$(CLI_TESTS)) alone $(CLI_TIMING_TESTS)

# Runs are intercepted by the test, which simulates cheating kernels.
$(BUILD)/tests/unit/test_bench: TEST_LDFLAGS := -Wl,--wrap=att_plan_run,--wrap=att_merge_run,--wrap=lab_clock_ns
