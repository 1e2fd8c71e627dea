"""setup.py: `pip install .` has make build the extension, library included; one wheel for every CPython from 3.9 on.

A C compiler and make are needed; nvcc, where it is found, adds the machine code of the GPU kernels. ATTEST_BUILD names the
build folder, so that what is built already is used.
"""

import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent


def version():
    header = (ROOT / "include/attest.h").read_text(encoding="utf-8")
    return re.search(r'ATT_VERSION_STRING "(.*)"', header).group(1)


class MakeExtension(build_ext):
    """Not the compiler that setuptools would call, but the project's own rules."""

    def build_extension(self, ext):
        build = os.environ.get("ATTEST_BUILD", "build")
        extension = Path(build) / "python/attest/_core.abi3.so"
        subprocess.run(["make", f"-j{os.cpu_count() or 1}", f"BUILD={build}", "WARN=-Wall",
                        f"PYTHON_INCLUDE={sysconfig.get_path('include')}", str(extension)], cwd=ROOT, check=True)
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / extension, target)


setup(
    version=version(),
    ext_modules=[Extension("attest._core", sources=[], py_limited_api=True)],
    cmdclass={"build_ext": MakeExtension},
    options={"bdist_wheel": {"py_limited_api": "cp39"}},
)
