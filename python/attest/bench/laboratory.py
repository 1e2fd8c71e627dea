"""laboratory.py: the program `attest`, which computes everything that is derived from samples: medians, intervals,
speeds relative to a rival, verdicts, cliffs and goals. Python computes none of that."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from typing import List, Optional, Sequence


def find(build: str) -> str:
    """The program: in the build folder, or in the PATH."""
    built = os.path.join(build, "attest")
    if os.access(built, os.X_OK):
        return built
    found = shutil.which("attest")
    if not found:
        raise LookupError(f"the program attest computes what samples say, and is neither {built} nor on the path: "
                          "`make` builds it, --build names the folder")
    return found


GOALS = ("flash", "hopper", "cpu", "features", "bias", "masks", "windows", "lengths", "pages", "chunk", "few_heads", "decode_sweep",
         "backward", "experts", "parallel", "float32", "cpu_backward", "cpu_experts", "all", "none")  # sets that `attest judge` knows


def judge(program: str, files: Sequence[str], goals: Optional[List[str]]) -> tuple:
    """(exit status, result): prints the table, verdicts, cliffs and goals; the result is None if the program refuses
    the files."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "judged.json")
        asked = [program, "judge", *files, "--json", path, *(["--goals", ",".join(goals)] if goals else [])]
        done = subprocess.run(asked, check=False, capture_output=True, text=True)
        print(done.stdout, end="", flush=True)
        if done.returncode > 1:
            print(done.stderr, end="", file=sys.stderr)
            return done.returncode, None
        with open(path, encoding="utf-8") as file:
            return done.returncode, json.load(file)["standing"]
