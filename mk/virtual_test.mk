# virtual_test.mk: tests of parts of the virtual GPU by themselves.
VIRTUAL_PART = $(patsubst %,$(BUILD)/obj/tests/virtual_gpu/%.o,$(1))
RACES_PARTS := $(call VIRTUAL_PART,races races_atomics races_clock races_memory races_names global_memory)

$(BUILD)/tests/unit/test_races $(BUILD)/tests/unit/test_global_memory: $(RACES_PARTS)
$(BUILD)/tests/unit/test_access: $(RACES_PARTS) $(call VIRTUAL_PART,access)
