"""conftest.py: a machine without a GPU unless a test says otherwise, and the last line that tests/run.sh counts."""

import os
import sys

os.environ.setdefault("ATTEST_ROWS", "")  # the user may have their own rows
for name in ("ATTEST_ISA", "ATTEST_DEVICE", "ATTEST_KERNEL", "ATTEST_ALLOW_SLOW"):
    os.environ.pop(name, None)
sys.path.insert(0, os.path.dirname(__file__))


def pytest_terminal_summary(terminalreporter):
    stats = terminalreporter.stats
    reasons = sorted({report.longrepr[2] for report in stats.get("skipped", [])})
    for reason in reasons:
        terminalreporter.write_line(f"skipped: {reason.removeprefix('Skipped: ')}")
    failed = len(stats.get("failed", [])) + len(stats.get("error", []))
    passed, skipped = (len(stats.get(word, [])) for word in ("passed", "skipped"))
    terminalreporter.write_line(f"{passed} passed, {failed} failed, {skipped} skipped")
