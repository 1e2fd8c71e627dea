# peers.mk: the plug-ins that ship, and the example, built as users build them. Without nvcc no cuBLAS peer ships.
PEERS := $(BUILD)/peers/plain_peer.so $(BUILD)/peers/attest.so $(if $(NVCC),$(BUILD)/peers/cublas.so)
all: $(PEERS)

$(BUILD)/peers/plain_peer.so: examples/peer/plain_peer.c include/attest_peer.h include/attest.h
	@mkdir -p $(@D)
	$(call short,LD,$@)$(CC) -std=c11 -O2 $(WARN) -shared -fPIC -Iinclude -o $@ $< -lm

# A peer that is another build of the library: ATTEST_PEER_LIBRARY names it.
$(BUILD)/peers/attest.so: peers/attest/library_peer.c include/attest_peer.h include/attest.h
	@mkdir -p $(@D)
	$(call short,LD,$@)$(CC) -std=c11 -O2 -g $(WARN) -Wno-pedantic -shared -fPIC -fvisibility=hidden -D_GNU_SOURCE -Iinclude -o $@ $< -ldl

CUBLAS_PEER := $(wildcard peers/cublas/*.c)
CUBLAS_CODE := $(CUDA_OUT)/peer_cublas.fatbin

$(CUBLAS_CODE): peers/cublas/cublas_steps.cu peers/cublas/cublas_steps.h
	@mkdir -p $(@D)
	$(call short,NVCC,$@)$(NVCC) -fatbin -std=c++17 -I. -gencode arch=compute_80,code=[sm_80,compute_80] -gencode arch=compute_89,code=sm_89 \
	    -gencode arch=compute_90,code=sm_90 -o $@ $<

# $(call cublas_peer,FOLDER,FAT BINARY): the plug-in with that code for its own kernels.
define cublas_peer
$(1)/cublas.so: $(CUBLAS_PEER) $(wildcard peers/cublas/*.h) $(2) include/attest_peer.h include/attest.h
	@mkdir -p $$(@D)
	$$(call short,LD,$$@)$$(CC) -std=c11 -O2 -g $$(WARN) -shared -fPIC -fvisibility=hidden -D_GNU_SOURCE -Iinclude -I. \
	    -DPEER_CUBLAS_CODE='"$(2)"' -o $$@ $(CUBLAS_PEER) -ldl
endef
$(eval $(call cublas_peer,$(BUILD)/peers,$(CUBLAS_CODE)))
# For tests without nvcc: a stand-in for that code, as in mk/images.mk.
$(eval $(call cublas_peer,$(BUILD)/tests/peers,$(IMAGES)/peer/cublas.fatbin))
$(IMAGES)/peer/cublas.fatbin:
	@mkdir -p $(@D)
	@printf '\x50\xed\x55\xba stands in for peer_cublas' >$@

CUBLAS_TESTED := $(BUILD)/$(if $(NVCC),,tests/)peers/cublas.so

# test_peer loads the plug-in by this path.
$(BUILD)/obj/tests/unit/test_peer.o: CPPFLAGS += -DCUBLAS_PEER='"$(abspath $(CUBLAS_TESTED))"'
$(BUILD)/tests/unit/test_peer: | $(PEERS) $(CUBLAS_TESTED)
test-cli: | $(CUBLAS_TESTED)
