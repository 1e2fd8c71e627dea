# examples.mk: the programs under examples/, built and run against an installed attest.
.PHONY: test-examples test-context-parallel
test-examples: all
	BUILD=$(BUILD) tests/examples.sh

# Ring attention over MPI, and over NCCL if it can be built; what cannot run here counts as skipped.
test-context-parallel: all
	BUILD=$(BUILD) tests/context_parallel.sh
