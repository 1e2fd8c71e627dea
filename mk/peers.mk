# peers.mk: plug-ins that ship, and the example, built as their users build them. Without nvcc there is no cuBLAS peer.
PEERS := $(BUILD)/peers/plain_peer.so $(if $(NVCC),$(BUILD)/peers/cublas.so)
all: $(PEERS)

$(BUILD)/peers/plain_peer.so: examples/peer/plain_peer.c include/attest_peer.h include/attest.h
	@mkdir -p $(@D)
	$(CC) -std=c11 -O2 $(WARN) -shared -fPIC -Iinclude -o $@ $< -lm

CUBLAS_PEER := $(wildcard peers/cublas/*.c)
CUBLAS_CODE := $(CUDA_OUT)/peer_cublas.fatbin

$(CUBLAS_CODE): peers/cublas/cublas_steps.cu peers/cublas/cublas_steps.h
	@mkdir -p $(@D)
	$(NVCC) -fatbin -std=c++17 -I. -gencode arch=compute_80,code=[sm_80,compute_80] -gencode arch=compute_89,code=sm_89 \
	    -gencode arch=compute_90,code=sm_90 -o $@ $<

$(BUILD)/peers/cublas.so: $(CUBLAS_PEER) $(wildcard peers/cublas/*.h) $(CUBLAS_CODE) include/attest_peer.h include/attest.h
	@mkdir -p $(@D)
	$(CC) -std=c11 -O2 -g $(WARN) -shared -fPIC -fvisibility=hidden -D_GNU_SOURCE -Iinclude -I. \
	    -DPEER_CUBLAS_CODE='"$(CUBLAS_CODE)"' -o $@ $(CUBLAS_PEER) -ldl

# test_peer loads the plug-in by this path.
$(BUILD)/obj/tests/unit/test_peer.o: CPPFLAGS += -DCUBLAS_PEER='"$(abspath $(BUILD))/peers/cublas.so"'
$(BUILD)/tests/unit/test_peer: | $(PEERS)
