# virtual_ptx.mk: the test of the virtual GPU's instructions: one lane made by hand, which neither ends nor gives way.
$(BUILD)/tests/unit/test_ptx: $(filter-out %/virtual_backend.o,$(VIRTUAL_OBJECTS))
$(BUILD)/tests/unit/test_ptx: TEST_LDFLAGS := $(addprefix -Wl$(comma)--wrap=,vgpu_fail lane_yield lane_may_yield)
