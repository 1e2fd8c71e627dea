# release.mk: `make release SIGN=KEY` tests everything and puts the files to publish into $(DIST), with digests and
# their signature. What some machines cannot test is prepared first: it must not fail after an hour.
.PHONY: release
release:
	@NVCC='$(NVCC)' SIGN='$(SIGN)' scripts/release.sh check $(VERSION)
	@BUILD=$(BUILD) scripts/release.sh require test-bare tests/bare.sh prepare
	@BUILD=$(BUILD) TOOLS=$(TOOLS) scripts/release.sh require test-frameworks scripts/setup.sh frameworks
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory test-timing
	@$(MAKE) --no-print-directory test-frameworks
	@$(MAKE) --no-print-directory BARE_RUNNERS= test-bare
	@rm -rf $(DIST)
	@$(MAKE) --no-print-directory sdist wheel deb
	@$(MAKE) --no-print-directory $(JOBS) CROSS=aarch64-linux-gnu- BUILD=$(BUILD)/aarch64-linux-gnu CUDA_OUT=$(CUDA_OUT) TOOLS=$(TOOLS) DIST=$(DIST) wheel
	@SIGN='$(SIGN)' scripts/release.sh finish $(VERSION) $(DIST)
