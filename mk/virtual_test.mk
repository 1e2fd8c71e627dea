# virtual_test.mk: tests of parts of the virtual GPU by themselves.
VIRTUAL_PART = $(patsubst %,$(BUILD)/obj/tests/virtual_gpu/%.o,$(1))
RACES_PARTS := $(call VIRTUAL_PART,races races_atomics races_clock races_memory races_names global_memory)

$(addprefix $(BUILD)/tests/unit/,test_races test_races_model test_global_memory): $(RACES_PARTS)
$(BUILD)/tests/unit/test_access: $(RACES_PARTS) $(call VIRTUAL_PART,access)
