# virtual_test.mk: tests of single parts of the virtual GPU.
VIRTUAL_PART = $(patsubst %,$(BUILD)/obj/tests/virtual_gpu/%.o,$(1))
RACES_PARTS := $(call VIRTUAL_PART,races races_atomics races_clock races_memory races_names global_memory)

$(addprefix $(BUILD)/tests/unit/,test_races test_races_model test_global_memory): $(RACES_PARTS)
$(BUILD)/tests/unit/test_access: $(RACES_PARTS) $(call VIRTUAL_PART,access)

# Instructions: one hand-made lane, which neither ends nor yields, and no driver.
$(BUILD)/tests/unit/test_ptx: $(filter-out $(call VIRTUAL_PART,virtual_backend virtual_cublas),$(VIRTUAL_OBJECTS))
$(BUILD)/tests/unit/test_ptx: TEST_LDFLAGS := $(addprefix -Wl$(comma)--wrap=,vgpu_fail lane_yield lane_may_yield)
