# virtual.mk: `make virtual` builds the virtual GPU: a driver that runs kernels on the CPU, its compiler, and the files
# that the compiler needs. See tests/virtual_gpu/abi.h. `attest verify --device virtual` uses it.
VIRTUAL          := $(BUILD)/virtual
VIRTUAL_TOOLS    := tests/virtual_gpu/rewrite.c tests/virtual_gpu/virtual_nvrtc.c
VIRTUAL_OBJECTS  := $(patsubst %.c,$(BUILD)/obj/%.o,$(filter-out $(VIRTUAL_TOOLS),$(wildcard tests/virtual_gpu/*.c)))
VIRTUAL_HEADERS  := $(addprefix $(VIRTUAL)/,abi.h cuda_builtins.h entry.h)

# Kernels call it: driver.map lists the symbols that they see. It runs where it was built.
$(VIRTUAL_OBJECTS): ISA_CFLAGS := -O3 -march=native -fvisibility=default -fno-semantic-interposition

$(VIRTUAL)/libcuda.so: $(VIRTUAL_OBJECTS) $(FAKE_DRIVER_OBJECTS) $(BUILD)/obj/src/base/dtype.o tests/virtual_gpu/driver.map
	@mkdir -p $(@D)
	$(call short,LD,$@)$(CC) -shared $(ALL_CFLAGS) -Wl,--version-script=tests/virtual_gpu/driver.map $(LDFLAGS) -o $@ $(filter %.o,$^) -pthread -lm -ldl

$(VIRTUAL)/libnvrtc.so: $(BUILD)/obj/tests/virtual_gpu/virtual_nvrtc.o
	@mkdir -p $(@D)
	$(call short,LD,$@)$(CC) -shared $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ -ldl

$(VIRTUAL)/rewrite: $(BUILD)/obj/tests/virtual_gpu/rewrite.o
	@mkdir -p $(@D)
	$(call short,LD,$@)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^

$(VIRTUAL_HEADERS): $(VIRTUAL)/%.h: tests/virtual_gpu/%.h
	@mkdir -p $(@D)
	$(call short,COPY,$@)cp $< $@

-include $(VIRTUAL_OBJECTS:.o=.d) $(patsubst %.c,$(BUILD)/obj/%.d,$(VIRTUAL_TOOLS))

# Every row of kernels.def. SEED is the first schedule seed.
SEED          := 1
VIRTUAL_ALL    = $(shell sed -nE 's/.*cuda_row,([a-z0-9_]+),.*/\1/p' $(CUDA_OUT)/rows.mk)
# The longest first, so that no core waits for them at the end.
VIRTUAL_FIRST := naive_sm80 tiled_sm80% fwd_sm80_f32_d256%
VIRTUAL_ROWS   = $(filter $(VIRTUAL_FIRST),$(VIRTUAL_ALL)) $(filter-out $(VIRTUAL_FIRST),$(VIRTUAL_ALL))
virtual_tests  = $(foreach row,$(VIRTUAL_ROWS),"tests/virtual_gpu/row.sh $(1) $(row)")

.PHONY: virtual test-rewrite test-virtual virtual-sanitize virtual-soak
test-virtual: virtual $(BUILD)/attest
	@BUILD=$(BUILD) CUDA_OUT=$(CUDA_OUT) tests/run.sh -j $(shell nproc) $(call virtual_tests,$(SEED))

# Every source, by one of its rows or of those that launch it, with the compiler's sanitizers in the kernel and in the
# virtual GPU, instead of the search for races. Memory that is still allocated at exit is not reported.
SANITIZED_ROWS := merge_sm80_bf16 combine_sm80_d128 decode_sm80_f16_d64_n16s3w4 decode_sm90_bf16_d64_m8n16s6w8 fwd_sm80_f16_d64_m128n64s2 \
                  fwd_sm80_bf16_d128_general_m64n64s2 fwd_sm90_f16_d64_m128n128s4 fwd_sm90_small_bf16_d64_m64n64s4w8 mma_async_sm80_f16_d64 \
                  mma_sm80_bf16_d64 unfused_sm80 vector_sm80_d64 tiled_sm80_d128 naive_sm80 fwd_sm80_f32_d64_m64n64s1 \
                  fwd_sm90_f16_d64_mask_m192n128s4 decode_join_sm90_d128 bwd_bias_sm80_f16_d128 bwd_sums_sm80 bwd_sm90_finish_d64_m128 \
                  bwd_sm90_wide_finish_d192_m64n64 moe_combine_sm80 moe_few_f16_m4n1s4w8 moe_sm90_bf16_m64n128s5w12
virtual-sanitize:
	@ATTEST_VIRTUAL_CXXFLAGS="-fno-sanitize=thread -fsanitize=address,undefined -fno-sanitize-recover=all" \
	    $(call asan_variant,detect_leaks=0) test-virtual VIRTUAL_ROWS="$(SANITIZED_ROWS)"

# All rows with other seeds until SECONDS have passed.
virtual-soak: virtual $(BUILD)/attest
	@BUILD=$(BUILD) CUDA_OUT=$(CUDA_OUT) tests/virtual_gpu/soak.sh $(SECONDS) $(SEED) $(VIRTUAL_ROWS)

virtual: $(VIRTUAL)/libcuda.so $(VIRTUAL)/libnvrtc.so $(VIRTUAL)/rewrite $(VIRTUAL_HEADERS)

test-rewrite: $(VIRTUAL)/rewrite
	@REWRITE=$< tests/run.sh tests/virtual_gpu/test_rewrite.sh
