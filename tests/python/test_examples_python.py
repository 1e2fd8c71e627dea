"""test_examples_python.py: the programs of examples/python run, if their framework is installed."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/python"
TINY = ["--size", "tiny", "--prompt", "16", "--new", "4", "--rounds", "1", "--device", "cpu"]


@pytest.mark.parametrize("name, module, arguments", [
    ("numpy_cpu", "numpy", []), ("merge_chunks", "numpy", []), ("experts_layer", "numpy", []), ("torch_dropin", "torch", []), ("torch_training", "torch", []), ("jax_program", "jax", []), ("cupy_gpu", "cupy", []),
    ("transformers_tokens", "transformers", TINY)])
def test_example(name, module, arguments):
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"examples that need {module}")
    said = subprocess.run([sys.executable, EXAMPLES / f"{name}.py", *arguments], check=False, capture_output=True, text=True)
    assert said.returncode == 0, said.stdout + said.stderr
    assert said.stdout


def test_example_of_four_processes():
    for module in ("torch", "transformers"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"examples that need {module}")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "4", EXAMPLES / "parallel_training.py"]
    said = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240,
                          env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"})
    assert said.returncode == 0 and "4 processes: loss" in said.stdout, said.stdout + said.stderr[-4000:]


def test_every_example_is_run():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {
        "numpy_cpu", "merge_chunks", "experts_layer", "torch_dropin", "torch_training", "jax_program", "cupy_gpu", "transformers_tokens", "parallel_training"}
