"""test_wheel.py: one wheel, with the limited API, that contains all it needs; and every Python found here loads it."""

import os
import shutil
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import attest
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """What `pip install .` packs, from what is already built."""
    scratch = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-c", "import libattest_build, sys; libattest_build.build_wheel(sys.argv[1])", scratch], cwd=ROOT,
                   check=True, env={**os.environ, "ATTEST_BUILD": os.environ.get("BUILD", "build"),
                                    "PYTHONPATH": str(ROOT / "packaging")},
                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    (found,) = scratch.glob("*.whl")
    return found


def test_wheel_is_for_every_python(wheel):
    assert "-cp39-abi3-" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert {"attest/__init__.py", "attest/_core.abi3.so", "attest/_core.pyi", "attest/py.typed",
                "attest/torch/__init__.py", "attest/jax/__init__.py", "attest/bench/__main__.py", "attest/__main__.py", "attest/bin/attest"} <= set(names)
        assert not [name for name in names if name.endswith((".c", ".h"))]


def test_the_other_attest_is_noticed(tmp_path):
    for folder in ("attest-0.5.3.dist-info", "attestation-1.0.dist-info", "libattest-0.2.0.dist-info"):
        (tmp_path / folder).mkdir()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        attest._warn_of_namesake(tmp_path)
    assert [str(one.message).split(", ")[0] for one in said] == [f"{tmp_path} also holds attest-0.5.3.dist-info"]


def test_every_python_loads_it(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    pythons = {sys.executable, *filter(None, (shutil.which(f"python3.{minor}") for minor in range(9, 20)))}
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    for python in sorted(pythons):
        if subprocess.run([python, "-c", "import sys; sys.exit(sys.version_info < (3, 9))"], check=False,
                          capture_output=True).returncode:
            continue  # too old, or a launcher without a Python
        said = subprocess.run([python, "-c", "import attest; print(attest.__file__, attest.devices()[0].device)"],
                              env=environment, check=True, capture_output=True, text=True).stdout
        assert said.startswith(str(tmp_path)) and said.split()[1] == "cpu"
