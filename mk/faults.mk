# faults.mk: faults planted in the kernels, which the virtual GPU must catch: tests/virtual_gpu/faults.txt.
#
# `make virtual-faults` plants all of them, or those of FAULTS='NAME...', and writes evidence/virtual/faults.txt; it
# takes about 10 minutes on one core. `make docs` then writes the table of docs/virtual-gpu-faults.md. `make test`
# plants a few, and runs the unmodified kernels on the problems and with the seeds that catch the others.
.PHONY: virtual-faults test-faults
virtual-faults: virtual $(BUILD)/attest
	@BUILD=$(BUILD) tests/virtual_gpu/faults.sh $(FAULTS)

test-faults: virtual $(BUILD)/attest
	@BUILD=$(BUILD) tests/run.sh -j 3 "tests/virtual_gpu/faults.sh --check" "tests/virtual_gpu/faults.sh --quick" "tests/virtual_gpu/faults.sh --sound"
