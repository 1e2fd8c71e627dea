"""test_gpu_path.py: GPU arrays on a driver that launches nothing: stream, workspace, alignment, errors."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FAKES = Path(os.environ.get("BUILD", "build")).resolve() / "tests/fake_cuda"


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    return run("gpu_path.py", tmp_path_factory)


@pytest.fixture(scope="module")
def xla_said(tmp_path_factory):
    return run("jax_path.py", tmp_path_factory)


def run(script, tmp_path_factory, **more):
    """Its output, by the first word of each line."""
    if not (FAKES / "libfake_cuda.so").exists():
        pytest.skip("the driver that launches nothing is not built")
    environment = {**os.environ, "ATTEST_LIBCUDA": str(FAKES / "libfake_cuda.so"),
                   "ATTEST_LIBNVRTC": str(FAKES / "libfake_nvrtc.so"),
                   "FAKE_CUDA_CC": "80",  # a GPU whose kernels are those of fwd_sm80
                   "ATTEST_ALLOW_UNATTESTED": "1",  # for which there is no evidence
                   "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache")), **more}
    done = subprocess.run([sys.executable, Path(__file__).with_name(script)], env=environment, check=False,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


@pytest.mark.parametrize("what, wanted", [
    ("launched", "1 on 20480"),
    ("answer", "ndarray (2, 8, 300, 64) float16 (2, 8, 300) float32"),
    ("streams", "{20480}"),
    ("backward", "True on 20480 [((2, 8, 300, 64), 'float16'), ((2, 8, 300, 64), 'float16'), ((2, 8, 300, 64), 'float16')] bwd_sm80"),
    ("backward-workspace", "[True]"),
    ("table-backward", "True on 24576 [(2, 8, 300, 64), (2, 8, 300, 64), (2, 8, 300, 64), (8, 300, 300)]"),
    ("workspace", "[True]"),
    ("second-gpu", "(2, 1) on 20481 [20481]"),
    ("unaligned", "True 5"),
    ("devices", "['cpu', 'cuda:0', 'cuda:1', 'cuda:2']"),
    ("kernels", "True"),
    ("given", "no error"),
    ("table-launched", "1 on 24576"),
    ("table-answer", "(2, 8, 300, 64) (307200, 38400, 128, 2) (2, 8, 300) float32 [307200, 4800]"),
    ("table-turned", "True"),
    ("table-rows-outside", "True"),
    ("table-workspace", "True 1 [False, True]"),
    ("table-out", "True"),
    ("table-left", "0"),
    ("table-full", "MemoryError: the output could not be allocated"),
    ("table-scratch", "MemoryError: the workspace could not be allocated"),
    ("table-strides", "TypeError: the output was made without strides 0"),
    ("table-explained", "0")])
def test_way(said, what, wanted):
    assert said[what] == wanted


@pytest.mark.parametrize("what, wanted", [
    ("kernel", "fwd_sm80"), ("kernel", "code 64 registers 168"), ("float32", "no error"),
    ("backward-mixed", "ValueError: d_o is on cpu, q is on cuda:0"),
    ("mixed", "ValueError: k is on cpu, q is on cuda:0"), ("other", "ValueError: k is on cuda:1, q is on cuda:0"),
    ("moon", "ValueError: q is on a device of DLPack's type 10"),
    ("longest", "TypeError: max_seqlen_q is needed")])
def test_words(said, what, wanted):
    assert wanted in said[what]


@pytest.mark.parametrize("what, wanted", [
    ("jax-metadata", "(0, 4, 0) (0, 4, 0)"), ("jax-metadata-older", "(0, 1, 0) (0, 1, 0)"),
    ("jax-backward", "None True on 28672 bwd_sm80"),
    ("jax-backward-cpu", "None [True, True, True] bwd_cpu"),
    ("jax-backward-missing", "(3, 'arrays that the gradients need are missing')"),
    ("jax-backward-float32", "(12, \"float32 arrays on a GPU require a gradient: attest's GPU kernels compute gradients of "
                             "float16 and bfloat16 only\")"),
    ("jax-merge", "None 1 merge"),
    ("jax-merge-cpu", "None 2.0 2.0 0.6931"),
    ("jax-merge-missing", "(3, 'the arrays do not match the number of parts')"),
    ("jax-moe", "None True moe"),
    ("jax-moe-cpu", "None True [0, 1, 0] [1.0, 1.0, 1.0] [2, 1, 0]"),
    ("jax-moe-missing", "(3, 'the arrays do not match the problem')"),
    ("jax-moe-other", "(3, 'the problem was described by another version of attest: compile it again')"),
    ("jax-workspace", "None [True] True"),
    ("jax-second", "None 1"),
    ("jax-nowhere", "(3, 'there is no such GPU')"),
    ("jax-cpu", "None 1.0 1.0 True"),
    ("jax-missing", "(3, 'an array of the problem is missing')"),
    ("jax-more", "(3, 'there are more arrays than the problem has')"),
    ("jax-older", "(3, 'the problem was described by another version of attest: compile it again')"),
    ("jax-stages", "None"),
    ("jax-many", "None"),
    ("jax-shares", "(1, 1, 1)"),
    ("jax-threads", "(1, 2, 1) (1, 1, 1)"),
    ("jax-hammer", "[] True")])
def test_way_of_xla(xla_said, what, wanted):
    assert xla_said[what] == wanted


def test_words_of_xla(xla_said):
    assert xla_said["jax-launched"].startswith("None 1 on 28672 fwd_sm80")
    assert xla_said["jax-float32"] == "None"
