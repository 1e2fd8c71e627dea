"""test_docs_python.py: the examples of docs/python*.md and README.md run as printed, if their imports are installed."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def examples():
    for page in (*(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("python*.md"))), "README.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        for match in re.finditer(r"^```python\n(.*?)^```", text, re.M | re.S):
            line = text.count("\n", 0, match.start()) + 2
            yield pytest.param(page, line, match.group(1), id=f"{page}:{line}")


@pytest.mark.parametrize("page, line, code", list(examples()))
def test_example(page, line, code, capsys, request):
    modules = set(re.findall(r"^\s*import (\w+)", code, re.M))
    missing = sorted(name for name in modules if importlib.util.find_spec(name) is None)
    if missing:
        pytest.skip(f"examples that need {', '.join(missing)}")
    if "attest.flash_attn" in code:
        import attest.flash_attn

        request.addfinalizer(attest.flash_attn.uninstall)
    exec(compile("\n" * (line - 1) + code, str(ROOT / page), "exec"), {"__name__": "example"})


def test_there_are_examples():
    assert sum(1 for _ in examples()) >= 6
