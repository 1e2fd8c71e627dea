# cli.mk: `make test-cli` drives the program as a user would.
.PHONY: test-cli
CLI_TESTS := $(wildcard tests/cli/test_*.sh)

test-cli: all
	@BUILD=$(BUILD) CC='$(CC)' tests/run.sh $(CLI_TESTS)

# Runs go through the test, which plays kernels that cheat.
$(BUILD)/tests/unit/test_bench: TEST_LDFLAGS := -Wl,--wrap=att_plan_run
