# cuda_test.mk: what the tests of the CUDA runtime need: a kernel of their own, and a test for a machine with a GPU.
PROBE_OUT := $(CUDA_OUT)/probe

# The rules of cuda.mk again, over another list of kernels.
$(PROBE_OUT)/embedded.c: tests/gpu/probe.cu tests/gpu/probe.def tests/gpu/probe_params.h scripts/cuda_embed.sh mk/cuda.mk
	@$(MAKE) --no-print-directory CUDA_OUT=$(PROBE_OUT) KERNELS=tests/gpu KERNELS_DEF=tests/gpu/probe.def $@

$(BUILD)/obj/probe_embedded.o: $(PROBE_OUT)/embedded.c src/cuda/embed.h
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c $< -o $@

# Its own table of kernels stands before the library's.
$(BUILD)/gpu/test_runtime: $(BUILD)/obj/tests/gpu/test_runtime.o $(BUILD)/obj/probe_embedded.o $(BUILD)/libattest.a
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

-include $(BUILD)/obj/tests/gpu/test_runtime.d
