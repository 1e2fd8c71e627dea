# report.mk: the committed page of the H200 run, and the test of such pages in a browser.
#
# The page follows from evidence/h200 alone: `make docs` writes it anew, `make test-docs` checks it.
.PHONY: report-page test-report-page test-browser
REPORT_PAGE := evidence/h200/report.html

docs: report-page
report-page: all
	$(BUILD)/attest report $(dir $(REPORT_PAGE)) -o $(REPORT_PAGE)

test-docs: test-report-page
test-report-page: all
	@$(BUILD)/attest report $(dir $(REPORT_PAGE)) -o $(BUILD)/report.html
	@cmp $(BUILD)/report.html $(REPORT_PAGE) || \
	    { echo 'test-docs: $(REPORT_PAGE) is not what evidence/ gives; `make docs` writes it anew' >&2; exit 1; }

test-browser: all
	@BUILD=$(BUILD) tests/run.sh tests/browser/test_report_page.sh
