"""test_training.py: training steps of a Llama and a ViT match those with PyTorch's attention; and the code that
times them."""

import copy
import json
import os
import subprocess
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")
pytest.importorskip("transformers", reason="transformers is not here: its tests are left out")

from attest.bench import __main__ as bench  # noqa: E402
from attest.bench import training  # noqa: E402

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
STEPS = 12
BUILD = Path(os.environ.get("BUILD", "build")).resolve()


def apart(losses):
    return max(abs(a - b) / max(abs(a), 1.0) for a, b in zip(losses["sdpa"], losses["attest"]))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_loss_curves(device, dtype):
    """Every loss agrees with the other within the bar, the loss decreases, and attest computed every call; not those in
    float32 on a GPU, for whose gradients it has no kernel."""
    size = training.SIZES["tiny"]._replace(dtype=dtype)
    for name, each in training.trainers(size, device).items():
        for trainer in each["jobs"].values():
            trainer.optimizer.param_groups[0]["lr"] = 3e-3
        found = training.compare(each["jobs"], STEPS)
        served = 0 if (device, dtype) == ("cuda", "float32") else STEPS * 2
        assert (found["served"], found["passed_on"]) == (served, STEPS * 2 - served), name
        assert apart(found["losses"]) <= (1e-4 if dtype == "float32" else 3e-2), name
        assert found["losses"]["attest"][-1] < 0.9 * found["losses"]["attest"][0], name


def test_a_loss_that_is_another_is_noticed():
    """The comparison can fail: with other weights it does."""
    each = training.trainers(training.SIZES["tiny"], "cpu")["llama"]
    with torch.no_grad():
        for weight in each["jobs"]["attest"].model.parameters():
            weight.mul_(1.5)
    assert apart(training.compare(each["jobs"], 1)["losses"]) > training.BARS["float32"]


def test_the_group_of_the_bench(tmp_path, capfd):
    path = tmp_path / "training.json"
    common = ["--device", "cpu", "--build", str(BUILD)]
    assert bench.main(["--groups", "training", "--model-size", "tiny", "--rounds", "2", "--json", str(path), *common]) == 0
    said, kept = capfd.readouterr().out, json.loads(path.read_text())
    assert "attest tokens/s" in said and "llama" in said and "vit" in said and "b1h8s128d64" in said
    assert kept["schema"] == training.SCHEMA and [row["model"] for row in kept["steps"]] == ["llama", "vit"]
    assert all(len(row["seconds"][name]) == 2 for row in (*kept["steps"], *kept["calls"]) for name in training.NAMES)
    assert all(len(row["seconds"]["autograd"]) == 2 for row in kept["calls"])
    assert bench.main(["--groups", "training,seed", *common]) == 2


def kept_samples():
    steps = [{"model": "llama", "problem": "2 x 32 tokens", "tokens": 64, "dtype": "float32", "bar": 1e-3, "served": 8,
              "passed_on": 0, "losses": {"sdpa": [5.0, 4.0], "attest": [5.0, 4.0001]},
              "seconds": {"sdpa": [0.2, 0.1, 0.3], "attest": [0.1, 0.1, 0.1]}}]
    calls = [{"problem": "b2h8s512d64,fp16", "seconds": {"sdpa": [1e-4, 1e-4], "attest": [5e-5, 5e-5]}}]
    return {"schema": training.SCHEMA, "machine": {"device": "cuda"}, "steps": steps, "calls": calls}


def spoiled(change):
    made = copy.deepcopy(kept_samples())
    change(made["steps"][0], made["calls"][0])
    return made


@pytest.mark.parametrize("change, status, text", [
    (lambda step, call: None, 0, "2.000"), (lambda step, call: step["losses"].update(attest=[5.0, 4.1]), 1, "MISSED"),
    (lambda step, call: step.update(passed_on=1), 1, "MISSED"), (lambda step, call: step.update(served=0), 1, "MISSED"),
    (lambda step, call: call["seconds"].update(attest=[7e-5, 7e-5]), 1, "0.700"),
    (lambda step, call: call["seconds"].update(autograd=[3e-5, 3e-5]), 0, "30.00"),
    (lambda step, call: call["seconds"].update(autograd=[None]), 2, "autograd"),
    (lambda step, call: step["losses"].update(attest=[5.0]), 2, "the numbers of losses differ"),
    (lambda step, call: step["losses"].update(attest=[5.0, None]), 2, "losses"),
    (lambda step, call: step.pop("tokens"), 2, "tokens"), (lambda step, call: call.pop("seconds"), 2, "seconds")])
def test_kept_samples_are_judged(tmp_path, change, status, text):
    """Speeds, and the requirements: the losses, that attest computed every call, and on a GPU the wall time of a
    call."""
    path = tmp_path / "training.json"
    path.write_text(json.dumps(spoiled(change)))
    done = subprocess.run([BUILD / "attest", "judge", path], check=False, capture_output=True, text=True)
    assert done.returncode == status and text in done.stdout + done.stderr
