# cuda_test.mk: what the tests of the CUDA runtime need: a test kernel, and a test for a machine with a GPU.
PROBE_OUT := $(CUDA_OUT)/probe

# The rules of cuda.mk again, for another list of kernels.
$(PROBE_OUT)/embedded.c: tests/gpu/probe.cu tests/gpu/probe.def tests/gpu/probe_params.h scripts/cuda_embed.sh mk/cuda.mk
	@$(MAKE) --no-print-directory CUDA_OUT=$(PROBE_OUT) KERNELS=tests/gpu KERNELS_DEF=tests/gpu/probe.def $@

$(BUILD)/obj/probe_embedded.o: $(PROBE_OUT)/embedded.c src/cuda/embed.h
	@mkdir -p $(@D)
	$(call short,CC,$<)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c $< -o $@

# Its own table of kernels precedes the library's.
$(BUILD)/gpu/test_runtime: $(BUILD)/obj/tests/gpu/test_runtime.o $(BUILD)/obj/probe_embedded.o $(BUILD)/libattest.a
	@mkdir -p $(@D)
	$(call short,LD,$@)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

-include $(BUILD)/obj/tests/gpu/test_runtime.d

# A fake driver and a fake compiler: see tests/fake_cuda/fake_cuda.h.
FAKES     := $(BUILD)/tests/fake_cuda
FAKE_LIBS := $(FAKES)/libfake_cuda.so $(FAKES)/libfake_nvrtc.so $(FAKES)/libfake_cublas.so $(FAKES)/libfake_nvml.so

FAKE_DRIVER_OBJECTS := $(addprefix $(BUILD)/obj/tests/fake_cuda/,fake_driver.o fake_device.o fake_module.o fake_memory.o fake_stream.o fake_tensor_map.o)
# The backend, and what computes in the place of kernels.
FAKE_CUDA_OBJECTS := $(patsubst %.c,$(BUILD)/obj/%.o,$(filter-out %/fake_compiler.c %/fake_cublas.c %/fake_nvml.c,$(wildcard tests/fake_cuda/fake_*.c)))
$(FAKES)/libfake_cuda.so: $(FAKE_CUDA_OBJECTS) $(BUILD)/obj/src/base/dtype.o
$(FAKES)/libfake_nvrtc.so: $(BUILD)/obj/tests/fake_cuda/fake_compiler.o
$(FAKES)/libfake_cublas.so: $(BUILD)/obj/tests/fake_cuda/fake_cublas.o
$(FAKES)/libfake_nvml.so: $(BUILD)/obj/tests/fake_cuda/fake_nvml.o
$(FAKE_LIBS):
	@mkdir -p $(@D)
	$(call short,LD,$@)$(CC) -shared $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ -pthread -lm

$(BUILD)/obj/tests/support/fakes.o: CPPFLAGS += -DFAKES='"$(abspath $(FAKES))"'
$(BUILD)/libsupport.a: | $(FAKE_LIBS)
-include $(FAKE_CUDA_OBJECTS:.o=.d) $(BUILD)/obj/tests/fake_cuda/fake_compiler.d \
    $(BUILD)/obj/tests/fake_cuda/fake_cublas.d $(BUILD)/obj/tests/fake_cuda/fake_nvml.d

.PHONY: test-cuda-build
test-cuda-build: $(BUILD)/libattest.so.$(VERSION)
	@NVCC='$(NVCC)' CC='$(CC)' STRIP='$(STRIP)' LIBRARY='$<' tests/cuda_build.sh
