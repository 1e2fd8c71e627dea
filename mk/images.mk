# images.mk: GPU code for the tests on a machine without nvcc: files that replace nvcc's output.
#
# TEST_IMAGES goes into every unit test without its own table, and into a second program,
# $(BUILD)/tests/images/attest, which the tests run on the fake GPU. Nothing that is installed contains them. With nvcc
# the code is the library's own: TEST_IMAGES is empty and the second program is the first.
IMAGES       := $(CUDA_OUT)/stand_in
TEST_IMAGES  := $(if $(NVCC),,$(BUILD)/libimages.a)
TEST_PROGRAM := $(BUILD)/tests/images/attest

# -u takes the table from the first archive that has one; this one comes before the library.
images_first = $(if $(TEST_IMAGES),-Wl$(comma)-u$(comma)att_embedded_codes)

$(IMAGES)/embedded.c: tests/fake_cuda/stand_in_images.sh scripts/cuda_embed.sh $(CUDA_OUT)/rows.mk $(CUDA_TEXTS) $(CUDA_OUT)/embedded.list
	@tests/fake_cuda/stand_in_images.sh $(IMAGES) $(CUDA_OUT)/rows.mk
	@scripts/cuda_embed.sh $(IMAGES)/*.fatbin $(CUDA_TEXTS) >$@.new
	@mv $@.new $@

$(BUILD)/obj/stand_in_embedded.o: $(IMAGES)/embedded.c src/cuda/embed.h $(call other_cuda_out,$(BUILD)/obj/stand_in_embedded.o)
	@mkdir -p $(@D)
	$(call short,CC,$<)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c $< -o $@
	@$(note_cuda_out)

$(BUILD)/libimages.a: $(BUILD)/obj/stand_in_embedded.o
	@rm -f $@
	$(call short,AR,$@)$(AR) rcs $@ $^

# Suites and devices are searched beside the program.
ifneq ($(NVCC),)
$(TEST_PROGRAM): $(BUILD)/attest
	@mkdir -p $(@D)
	@ln -sfn ../../attest $@
else
$(TEST_PROGRAM): $(CLI_OBJECTS) $(BUILD)/liblab.a $(TEST_IMAGES) $(BUILD)/libattest.a
	@mkdir -p $(@D)
	@rm -f $@
	@ln -sfn ../../suites ../../devices $(@D)
	$(call short,LD,$@)$(CC) $(ALL_CFLAGS) $(LDFLAGS) $(images_first) -o $@ $^ $(JANSSON) $(LDLIBS)
endif

test-cli: | $(TEST_PROGRAM)
