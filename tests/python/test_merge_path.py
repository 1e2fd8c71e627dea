"""test_merge_path.py: merge() of GPU arrays on a driver that computes on the host: answers, launches, stream,
errors."""

import pytest
from test_gpu_path import run


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    return run("merge_path.py", tmp_path_factory, FAKE_CUDA_COMPUTES="1")


@pytest.mark.parametrize("what, wanted", [
    ("merged", "True 1 on 20480"),
    ("kernel", "merge_sm80_f16 code 64"),
    ("float32", "True 1 on 20480 merge_sm80_f32"),
    ("odd", "True 1 on 20480"),
    ("stacked", "True True"),
    ("unaligned", "2 True 1 on 20480"),
    ("wide", "True 1 on 20480"),
    ("many", "True 4 on 20480"),
    ("between", "[True]"),
    ("mixed", "True 4 on 20480"),
    ("empty", "True True"),
    ("streams", str([True] * 6)),
    ("split", "True"),
    ("table", "True 1 on 24576"),
    ("table-lies", "True 2"),
    ("table-out", "True True"),
    ("table-many", "True"),
    ("table-left", "0"),
    ("table-full", "MemoryError: the output could not be allocated")])
def test_way(said, what, wanted):
    assert said[what] == wanted


@pytest.mark.parametrize("what, wanted", [
    ("other", "ValueError: parts_o[1] is on cuda:1, parts_o[0] is on cuda:0: they must be on one device"),
    ("lse-on-cpu", "ValueError: parts_lse[0] is on cpu, parts_o[0] is on cuda:0"),
    ("too-wide", "UnsupportedError: ")])
def test_words(said, what, wanted):
    assert wanted in said[what]
