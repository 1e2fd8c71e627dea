# gpu.mk: `make gpu-test` is for a machine with a GPU. The folder that `make gpu-build` leaves runs there unchanged:
# BUILD=build tests/gpu/gpu_tests.sh compiles nothing.
.PHONY: gpu-build gpu-test test-jumps
GPU_TESTS := $(BUILD)/gpu/test_gpu_api $(BUILD)/gpu/test_jumps $(BUILD)/gpu/test_runtime

$(BUILD)/gpu/test_gpu_api $(BUILD)/gpu/test_jumps: $(BUILD)/gpu/%: $(BUILD)/obj/tests/gpu/%.o $(BUILD)/liblab.a $(BUILD)/libattest.a
	@mkdir -p $(@D)
	$(call short,LD,$@)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(JANSSON) $(LDLIBS)

-include $(BUILD)/obj/tests/gpu/test_gpu_api.d $(BUILD)/obj/tests/gpu/test_jumps.d

gpu-build: all $(GPU_TESTS)

# The program is also run on a fake GPU.
test-cli: | $(FAKE_LIBS)

# The CPU must also handle scores with large jumps.
test-jumps: $(BUILD)/gpu/test_jumps
	@$< cpu

gpu-test: gpu-build
	@BUILD=$(BUILD) tests/gpu/gpu_tests.sh
