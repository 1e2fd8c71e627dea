# report.mk: the committed page of the H200 run, the pictures of the README, and the test of such pages in a browser.
#
# Page and pictures depend only on evidence/h200 and docs/overview.md: `make docs` rewrites them, `make test-docs`
# checks them.
.PHONY: report-page test-report-page test-browser pictures test-pictures
REPORT_PAGE := evidence/h200/report.html
PICTURES    := docs/pictures

docs: report-page
report-page: all
	$(BUILD)/attest report $(dir $(REPORT_PAGE)) -o $(REPORT_PAGE)

test-docs: test-report-page
test-report-page: all
	@$(BUILD)/attest report $(dir $(REPORT_PAGE)) -o $(BUILD)/report.html
	@cmp $(BUILD)/report.html $(REPORT_PAGE) || \
	    { echo 'test-docs: $(REPORT_PAGE) does not match evidence/; `make docs` rewrites it' >&2; exit 1; }

# Speeds of attest and its rivals, forward and backward, and the parts of attest; for light pages and for dark ones.
SPEED_PANELS := rates-forward-h16d128-bf16-causal,rates-backward-h16d128-bf16-causal
SPEED_FILES  := evidence/h200/forward_fa3.json evidence/h200/backward.json
write_pictures = for theme in light dark; do \
	    $(BUILD)/attest report $(SPEED_FILES) --svg $(SPEED_PANELS) $$([ $$theme = light ] || echo --dark) -o $(1)/speed-$$theme.svg >/dev/null && \
	    $(BUILD)/drawing_svg docs/overview.md $$theme >$(1)/parts-$$theme.svg || exit 1; \
	done

$(BUILD)/drawing_svg: scripts/drawing_svg.c
	@mkdir -p $(@D)
	$(call short,LD,$@)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $<

docs: pictures
pictures: all $(BUILD)/drawing_svg
	@mkdir -p $(PICTURES)
	@$(call write_pictures,$(PICTURES))

test-docs: test-pictures
test-pictures: all $(BUILD)/drawing_svg
	@mkdir -p $(BUILD)/pictures
	@$(call write_pictures,$(BUILD)/pictures)
	@diff -rq $(PICTURES) $(BUILD)/pictures || \
	    { echo 'test-docs: $(PICTURES) do not match evidence/ and docs/overview.md; `make docs` rewrites them' >&2; exit 1; }

test-browser: all
	@BUILD=$(BUILD) tests/run.sh tests/browser/test_report_page.sh
