# primitives.mk: tests of each primitive of the kernels alone, for a machine with a GPU.
PRIMITIVES_OUT := $(CUDA_OUT)/primitives

# The rules of cuda.mk again, for another list of kernels.
$(PRIMITIVES_OUT)/embedded.c: tests/gpu/primitives.cu tests/gpu/primitives.def tests/gpu/primitives_params.h \
    $(wildcard kernels/*.cuh) scripts/cuda_embed.sh mk/cuda.mk
	@$(MAKE) --no-print-directory CUDA_OUT=$(PRIMITIVES_OUT) KERNELS=tests/gpu KERNELS_DEF=tests/gpu/primitives.def $@

$(BUILD)/obj/primitives_embedded.o: $(PRIMITIVES_OUT)/embedded.c src/cuda/embed.h
	@mkdir -p $(@D)
	$(call short,CC,$<)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c $< -o $@

# Its own table of kernels precedes the library's.
$(BUILD)/gpu/test_primitives: $(BUILD)/obj/tests/gpu/test_primitives.o $(BUILD)/obj/primitives_embedded.o $(BUILD)/libattest.a
	@mkdir -p $(@D)
	$(call short,LD,$@)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

-include $(BUILD)/obj/tests/gpu/test_primitives.d

# The same for Hopper's primitives.
PRIMITIVES_SM90_OUT := $(CUDA_OUT)/primitives_sm90
PRIMITIVES_SM90     := $(addprefix tests/gpu/,primitives_sm90.cu warpgroups_sm90.cu cluster_sm90.cu primitives_sm90.def primitives_sm90_params.h)

$(PRIMITIVES_SM90_OUT)/embedded.c: $(PRIMITIVES_SM90) $(wildcard kernels/*.cuh) scripts/cuda_embed.sh mk/cuda.mk
	@$(MAKE) --no-print-directory CUDA_OUT=$(PRIMITIVES_SM90_OUT) KERNELS=tests/gpu KERNELS_DEF=tests/gpu/primitives_sm90.def $@

$(BUILD)/obj/primitives_sm90_embedded.o: $(PRIMITIVES_SM90_OUT)/embedded.c src/cuda/embed.h
	@mkdir -p $(@D)
	$(call short,CC,$<)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c $< -o $@

$(BUILD)/gpu/test_primitives_sm90: $(BUILD)/obj/tests/gpu/test_primitives_sm90.o $(BUILD)/obj/primitives_sm90_embedded.o $(BUILD)/libattest.a
	@mkdir -p $(@D)
	$(call short,LD,$@)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

-include $(BUILD)/obj/tests/gpu/test_primitives_sm90.d

# `make gpu-build` builds them.
gpu-build: $(BUILD)/gpu/test_primitives $(BUILD)/gpu/test_primitives_sm90
