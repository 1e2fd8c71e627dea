"""test_wheel.py: one wheel, of the limited API, that holds all it needs; and the Pythons that are here load it."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip("setuptools", reason="setuptools is not here: no wheel is built")
    pytest.importorskip("wheel", reason="wheel is not here: no wheel is built")
    scratch = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "setup.py", "-q", "egg_info", "--egg-base", scratch, "build", "--build-base",
                    scratch / "build", "bdist_wheel", "-d", scratch, "--bdist-dir", scratch / "parts"], cwd=ROOT,
                   check=True, env={**os.environ, "ATTEST_BUILD": os.environ.get("BUILD", "build")},
                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    (found,) = scratch.glob("*.whl")
    return found


def test_wheel_is_for_every_python(wheel):
    assert "-cp39-abi3-" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert {"attest/__init__.py", "attest/_core.abi3.so", "attest/_core.pyi", "attest/py.typed",
                "attest/torch/__init__.py", "attest/jax.py", "attest/bench/__main__.py"} <= set(names)
        assert not [name for name in names if name.endswith((".c", ".h"))]


def test_every_python_loads_it(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    pythons = {sys.executable, *filter(None, (shutil.which(f"python3.{minor}") for minor in range(9, 20)))}
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    for python in sorted(pythons):
        if subprocess.run([python, "-c", "import sys; sys.exit(sys.version_info < (3, 9))"], check=False,
                          capture_output=True).returncode:
            continue  # too old, or a launcher without a Python behind it
        said = subprocess.run([python, "-c", "import attest; print(attest.__file__, attest.devices()[0].device)"],
                              env=environment, check=True, capture_output=True, text=True).stdout
        assert said.startswith(str(tmp_path)) and said.split()[1] == "cpu"
