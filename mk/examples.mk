# examples.mk: the programs under examples/, built and run against an installed attest.
.PHONY: test-examples
test-examples: all
	BUILD=$(BUILD) tests/examples.sh
