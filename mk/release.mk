# release.mk: `make release SIGN=KEY` tests everything and puts the files to publish into $(DIST), with digests and
# their signature.
.PHONY: release
release:
	@NVCC='$(NVCC)' SIGN='$(SIGN)' scripts/release.sh check $(VERSION)
	@$(MAKE) --no-print-directory test
	@rm -rf $(DIST)
	@$(MAKE) --no-print-directory sdist wheel deb
	@$(MAKE) --no-print-directory $(JOBS) CROSS=aarch64-linux-gnu- BUILD=$(BUILD)/aarch64-linux-gnu CUDA_OUT=$(CUDA_OUT) TOOLS=$(TOOLS) DIST=$(DIST) wheel
	@SIGN='$(SIGN)' scripts/release.sh finish $(VERSION) $(DIST)
