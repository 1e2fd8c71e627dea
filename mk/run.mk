# run.mk: `make run` demonstrates the library on this machine, `make bench` measures it.
.PHONY: run-setup
run-setup:
	@scripts/setup.sh run

# A second make: what set-up has just installed changes what this make has already detected.
run: run-setup
	@$(MAKE) -q --no-print-directory all 2>/dev/null || echo 'building under $(BUILD)/, which takes under a minute the first time$(if $(NVCC),$(comma) and the GPU kernels about ten minutes of one core$(comma) half of that on two) ...'
	@$(MAKE) -s --no-print-directory -j$(shell nproc) all
	@$(BUILD)/attest demo

bench: all
	$(BUILD)/attest bench --suite cpu --device cpu --json $(BUILD)/bench.json
