"""test_unequal_lengths.py: the group lengths of attest.bench: packed sequences and caches of unequal lengths, beside
equal ones."""

import json
import os
import subprocess
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")

from attest.bench import record, run, unequal_lengths  # noqa: E402
from attest.bench.problems import Problem, Row  # noqa: E402

BUILD = Path(os.environ.get("BUILD", "build")).resolve()
LENGTHS = (5, 37, 1, 20)
PREFILL = [Problem(4, 4, 2, 37, 37, 16, 16, dtype, causal, lengths=LENGTHS) for dtype in ("f32", "bf16") for causal in (False, True)]
DECODE = [Problem(4, 4, 2, 1, 37, 16, 16, dtype, lengths=LENGTHS) for dtype in ("f32", "bf16")]


@pytest.mark.parametrize("problem", PREFILL + DECODE, ids=lambda problem: problem.spec)
def test_unequal_lengths__a_sequence_is_wrong__found(problem):
    inputs = unequal_lengths.make_inputs(problem, "cpu", 2)
    checker = unequal_lengths.Checker(inputs)
    attest = unequal_lengths.ATTEST.prepare(inputs)
    output = attest(0)
    assert output is inputs.outputs[0] and attest(1) is inputs.outputs[1]
    assert checker.judge(output, rival=False)[1] == ""
    wrong = output.clone()
    if problem.packed:
        wrong[5:42] = wrong[5:42].flip(0)
    else:
        wrong[1] += 1.0
    assert checker.judge(wrong, rival=False)[1].startswith("sequence 1: error")
    wrong[:] = output
    wrong[-1, ..., -1, :] = torch.nan  # a head that is not compared
    assert checker.judge(wrong, rival=False)[1] == "sequence 3: the output is not finite everywhere"


def test_unequal_lengths__a_run__judged_beside_equal_ones(tmp_path):
    rows = [[Row("lengths", problem, 1)] for problem in PREFILL + DECODE]
    done = run.run(rows, ["equal", "flash", "math"], "cpu", ["warm"], 2, 0.0, lambda timed: None)
    record.write(tmp_path / "a.json", record.document(done, "cpu", {}))
    kept = json.loads((tmp_path / "a.json").read_text())["results"]
    assert {each["rival"] for each in kept} == {"attest", "equal"} and all(each["timed"] for each in kept)
    judged = subprocess.run([BUILD / "attest", "judge", tmp_path / "a.json", "--goals", "none"], check=False, capture_output=True,
                            text=True)
    assert judged.returncode == 0 and "lengths against attest, equal lengths: geometric mean" in judged.stdout, judged.stderr


def test_unequal_lengths__flash__gets_packed_sequences(monkeypatch):
    """The code path for a GPU, with a substitute for PyTorch's operator."""
    asked = []

    def forward(q, k, v, *others):
        asked.append(others)
        return q, None

    monkeypatch.setattr(torch.ops.aten, "_flash_attention_forward", forward, raising=False)
    flash = unequal_lengths.find(["flash"], "cuda")["flash"]
    inputs = unequal_lengths.make_inputs(PREFILL[-1], "cpu", 1)
    assert flash.prepare(inputs)(0) is inputs.tensors[0][0]
    offsets, again, *others = asked[0]
    assert offsets.tolist() == again.tolist() == [0, 5, 42, 43, 63] and others == [37, 37, 0.0, True, False]
    with pytest.raises(unequal_lengths.Refused, match="no lengths of a cache"):
        flash.prepare(unequal_lengths.make_inputs(DECODE[-1], "cpu", 1))
