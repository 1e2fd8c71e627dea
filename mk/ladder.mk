# ladder.mk: the tables of docs/ladder.md come from evidence/h200; `make ladder` writes them, `make test-ladder` checks them.
.PHONY: ladder test-ladder
$(BUILD)/ladder_table: scripts/ladder_table.c $(BUILD)/liblab.a $(BUILD)/libattest.a
	@mkdir -p $(@D)
	$(call short,LD,$@)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(JANSSON) $(LDLIBS)

ladder: $(BUILD)/ladder_table
	scripts/ladder.sh $<

test-ladder: $(BUILD)/ladder_table
	@scripts/ladder.sh --check $<
