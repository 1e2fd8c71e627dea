# primitives.mk: each primitive of the kernels by itself, for a machine with a GPU.
PRIMITIVES_OUT := $(CUDA_OUT)/primitives

# The rules of cuda.mk again, over another list of kernels.
$(PRIMITIVES_OUT)/embedded.c: tests/gpu/primitives.cu tests/gpu/primitives.def tests/gpu/primitives_params.h \
    $(wildcard kernels/*.cuh) scripts/cuda_embed.sh mk/cuda.mk
	@$(MAKE) --no-print-directory CUDA_OUT=$(PRIMITIVES_OUT) KERNELS=tests/gpu KERNELS_DEF=tests/gpu/primitives.def $@

$(BUILD)/obj/primitives_embedded.o: $(PRIMITIVES_OUT)/embedded.c src/cuda/embed.h
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c $< -o $@

# Its own table of kernels stands before the library's.
$(BUILD)/gpu/test_primitives: $(BUILD)/obj/tests/gpu/test_primitives.o $(BUILD)/obj/primitives_embedded.o $(BUILD)/libattest.a
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

-include $(BUILD)/obj/tests/gpu/test_primitives.d

# `make gpu-build` makes it.
gpu-build: $(BUILD)/gpu/test_primitives
