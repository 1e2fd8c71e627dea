"""libattest_build.py: packs wheels and source archives; what `pip install .` calls (PEP 517), and `make wheel` and `make sdist`.

    libattest_build.py wheel PARTS PLATFORM FOLDER    PARTS holds what make linked: see mk/wheel.mk
    libattest_build.py sdist FOLDER

`pip install .` needs a C compiler and make. It builds in a temporary folder; ATTEST_BUILD names another one, so that what is
built already is used. The archives are the same bytes for the same contents; their times are SOURCE_DATE_EPOCH.
"""

import base64
import gzip
import hashlib
import io
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EPOCH = max(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), 315532800)  # a zip archive begins with 1980
TAG = "cp39-abi3"

if globals().get("__cached__"):  # pip imports this file: the tree stays as it was
    Path(__cached__).unlink(missing_ok=True)
    if Path(__cached__).parent.is_dir() and not any(Path(__cached__).parent.iterdir()):
        Path(__cached__).parent.rmdir()


def version():
    header = (ROOT / "include/attest.h").read_text(encoding="utf-8")
    return re.search(r'ATT_VERSION_STRING "(.*)"', header).group(1)


def metadata():
    head = (ROOT / "packaging/METADATA.in").read_text(encoding="utf-8").replace("@VERSION@", version())
    return head + (ROOT / "docs/python.md").read_text(encoding="utf-8")


def package_files(parts):
    """Pairs of a name in the wheel and the file that it is."""
    for file in sorted((ROOT / "python/attest").rglob("*")):
        if file.suffix in (".py", ".pyi") or file.name == "py.typed":
            yield file.relative_to(ROOT / "python").as_posix(), file
    for name in ("_core.abi3.so", f"libattest_kernels-{version()}.so", "bin/attest"):
        if (parts / "attest" / name).is_file():
            yield f"attest/{name}", parts / "attest" / name
    for pattern in ("suites/*.txt", "devices/*.json", "evidence/*.txt", "evidence/*/attestations/*",
                    "evidence/*/host.json"):
        for file in sorted(ROOT.glob(pattern)):
            yield f"attest/share/attest/{file.relative_to(ROOT).as_posix()}", file


def licences(parts):
    yield "LICENSE", ROOT / "LICENSE"
    for package in ("libjansson-dev", "libjansson4"):  # in the program; its licence asks to be passed on
        file = Path("/usr/share/doc") / package / "copyright"
        if file.is_file() and (parts / "attest/bin/attest").is_file():
            yield "jansson.txt", file
            return


def info_files(platform):
    """Names and texts of the folder .dist-info."""
    tags = "".join(f"Tag: {TAG}-{one}\n" for one in platform.split("."))
    yield "METADATA", metadata()
    yield "entry_points.txt", "[console_scripts]\nattest = attest.__main__:main\n"
    yield "WHEEL", f"Wheel-Version: 1.0\nGenerator: libattest_build\nRoot-Is-Purelib: false\n{tags}"


def pack_wheel(parts, platform, folder):
    """The wheel, by its file name in `folder`."""
    name = f"libattest-{version()}"
    info = f"{name}.dist-info"
    contents = [(inside, file.read_bytes(), file.stat().st_mode & 0o111) for inside, file in package_files(parts)]
    contents += [(f"{info}/licenses/{inside}", file.read_bytes(), 0) for inside, file in licences(parts)]
    for inside, text in info_files(platform):
        contents.append((f"{info}/{inside}", text.encode(), 0))
    record = ""
    for inside, data, _ in contents:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{inside},sha256={digest},{len(data)}\n"
    contents.append((f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode(), 0))

    target = Path(folder) / f"{name}-{TAG}-{platform}.whl"
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for inside, data, executable in contents:
            entry = zipfile.ZipInfo(inside, time.gmtime(EPOCH)[:6])
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if executable else 0o100644) << 16
            archive.writestr(entry, data)
    return target.name


def source_files():
    """Every file of the project: what git knows, or, of an unpacked archive, all that is there."""
    if (ROOT / ".git").exists():
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
        names = [name for name in listed.decode().split("\0") if name and (ROOT / name).is_file()]
    else:
        names = [file.relative_to(ROOT).as_posix() for file in ROOT.rglob("*") if file.is_file()]
    skipped = re.compile(r"build(-[^/]*)?/|(.*/)?__pycache__/|PKG-INFO$")
    return sorted(name for name in names if not skipped.match(name))


def pack_sdist(folder):
    """The source archive, by its file name in `folder`."""
    name = f"libattest-{version()}"
    target = Path(folder) / f"{name}.tar.gz"
    target.parent.mkdir(parents=True, exist_ok=True)
    contents = [(inside, (ROOT / inside).read_bytes(), (ROOT / inside).stat().st_mode & 0o111) for inside in source_files()]
    contents.append(("PKG-INFO", metadata().encode(), 0))
    with open(target, "wb") as file, gzip.GzipFile("", "wb", 9, file, EPOCH) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for inside, data, executable in contents:
            entry = tarfile.TarInfo(f"{name}/{inside}")
            entry.size, entry.mtime, entry.mode = len(data), EPOCH, 0o755 if executable else 0o644
            archive.addfile(entry, io.BytesIO(data))
    return target.name


def say(text):
    """Print a line on the terminal too: pip shows what a build prints only with -v."""
    print(text, flush=True)
    try:
        with open("/dev/tty", "w", encoding="utf-8") as terminal:
            terminal.write(f"\n  libattest: {text}\n")
    except OSError:
        pass  # no terminal


def make(build, *arguments):
    command = ["make", f"BUILD={build}", f"PYTHON_INCLUDE={sysconfig.get_path('include')}", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE if "-s" in arguments else None).stdout


def build_parts(build):
    started = time.monotonic()
    images = int(make(build, "-s", "gpu-images"))
    cores = os.cpu_count() or 1
    say(f"compiling on {cores} cores" + (f", with nvcc: {images} images of GPU kernels take about {10 // cores + 1} minutes; "
                                          "NVCC= in the environment leaves them out" if images else ""))
    make(build, f"-j{cores}", "EXTRA_CFLAGS=-g0", "wheel-parts")
    say(f"compiled in {time.monotonic() - started:.0f} seconds")


def local_platform():
    return re.sub("[-.]", "_", sysconfig.get_platform())


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """Without it pip would build the whole wheel to learn the name."""
    folder = Path(metadata_directory) / f"libattest-{version()}.dist-info"
    folder.mkdir()
    for inside, text in info_files(local_platform()):
        (folder / inside).write_text(text, encoding="utf-8")
    return folder.name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with tempfile.TemporaryDirectory() as scratch:
        build = os.environ.get("ATTEST_BUILD", scratch)
        build_parts(build)  # by the name that make knows it by: another one would embed the kernels again
        return pack_wheel(ROOT / build / "wheel/local", local_platform(), wheel_directory)


def build_sdist(sdist_directory, config_settings=None):
    return pack_sdist(sdist_directory)


def main(arguments):
    if len(arguments) == 4 and arguments[0] == "wheel":
        print(Path(arguments[3]) / pack_wheel(Path(arguments[1]), *arguments[2:]))
    elif len(arguments) == 2 and arguments[0] == "sdist":
        print(Path(arguments[1]) / pack_sdist(arguments[1]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
