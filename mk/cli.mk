# cli.mk: `make test-cli` drives the program as a user would.
.PHONY: test-cli
test-cli: all
	@tests/run.sh $(addprefix "env BUILD=$(BUILD) ,$(addsuffix ",$(filter-out %/common.sh,$(wildcard tests/cli/*.sh))))
