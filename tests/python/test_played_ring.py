"""test_played_ring.py: the groups parallel_4 and parallel_8 of attest.bench: a ring played in one process, beside one
call."""

import json
import os
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")

from attest.bench import __main__ as bench  # noqa: E402
from attest.bench import played_ring, rivals  # noqa: E402
from attest.bench.problems import Problem  # noqa: E402
from attest.torch.parallel import sharded  # noqa: E402

BUILD = Path(os.environ.get("BUILD", "build")).resolve()


def inputs_of(dtype="bf16", rows_first=False):
    """On a CPU; rows_first: in memory as on a GPU."""
    made = rivals.make_inputs(Problem(2, 4, 2, 70, 70, 16, 16, dtype, True, ranks=4), "cpu", 2)
    if rows_first:
        made.tensors = [tuple(x.contiguous() for x in each) for each in made.tensors]
        made.outputs = [x.contiguous() for x in made.outputs]
    return made


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("rows_first", [False, True])
def test_played_ring__its_answers__pass(dtype, rows_first):
    inputs = inputs_of(dtype, rows_first)
    checker = played_ring.Checker(inputs)
    ring = played_ring.ATTEST.prepare(inputs)
    assert checker.judge(ring(0), rival=False)[1] == ""
    assert all(torch.equal(first, again) for first, again in zip(ring(0), ring(2)))  # two copies, in rotation
    assert checker.judge(played_ring.find(["whole"], "cpu")["whole"].prepare(inputs)(0), rival=True)[1] == ""
    assert played_ring.find(["flash"], "cpu") == {}


@pytest.mark.parametrize("at, why", [(1, "O and that"), (5, "log-sums and that")])
def test_played_ring__one_rank_is_wrong__refused(at, why):
    inputs = inputs_of()
    checker = played_ring.Checker(inputs)
    output = [x.clone() for x in played_ring.ATTEST.prepare(inputs)(0)]
    output[at][0, 3] += 0.5  # a head that is not compared with float32 math
    assert why in checker.judge(output, rival=False)[1]


def test_played_ring__a_part_is_lost__not_timed(monkeypatch, tmp_path, capsys):
    forward, parts = sharded.pieces.forward, []

    def lose(q, k, v, *others):
        o, lse = forward(q, k, v, *others)
        parts.append(q)
        return (o, lse) if len(parts) != 3 else (o, torch.full_like(lse, -torch.inf))

    monkeypatch.setattr(sharded.pieces, "forward", lose)
    asked = ["--device", "cpu", "--groups", "parallel_4", "--dtypes", "bf16", "--threads", "1", "--sizes", "64", "--rounds", "2",
             "--budget", "0", "--only", "h4s", "--build", str(BUILD), "--json", str(tmp_path / "a.json")]
    assert bench.main(asked) == 1
    ours = json.loads((tmp_path / "a.json").read_text())["results"][0]
    assert ours["verify"]["outcome"] == "fail" and not ours["timed"] and "above" in capsys.readouterr().out


def test_played_ring__a_run__both_rings_are_judged(tmp_path, capsys):
    path = tmp_path / "a.json"
    assert bench.main(["--device", "cpu", "--groups", "parallel_4,parallel_8", "--dtypes", "f32,bf16", "--threads", "1", "--sizes", "80",
                       "--rounds", "2", "--budget", "0", "--build", str(BUILD), "--json", str(path)]) == 0
    said = capsys.readouterr().out
    assert all(f"parallel_{ranks} against attest, one call: geometric mean" in said for ranks in (4, 8))
    kept = json.loads(path.read_text())["results"]
    assert {each["group"] for each in kept} == {"parallel_4", "parallel_8"} and len(kept) == 2 * 2 * 2 * 2
    assert {each["rival"] for each in kept} == {"attest", "whole"} and all(each["timed"] for each in kept)
