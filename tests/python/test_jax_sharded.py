"""test_jax_sharded.py: attest.jax on arrays that are split over devices: each computes its own part, and nothing is
gathered."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

jax = pytest.importorskip("jax", reason="JAX is not here: its tests are left out")

BOTH = ["x y", "x y"]


@pytest.fixture(scope="module")
def outcomes():
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    done = subprocess.run([sys.executable, Path(__file__).with_name("sharded_path.py")], env=environment, check=False,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def of_case(outcomes, case):
    if case not in outcomes:
        pytest.skip(f"JAX {jax.__version__} has no jax.shard_map")
    assert "failed" not in outcomes[case], outcomes[case]["failed"]
    return outcomes[case]


@pytest.mark.parametrize("case, specs", [
    ("batch", ["x", "x"]), ("heads", ["- xy", "- xy"]), ("batch and heads", BOTH), ("other layout", ["x - y", "x y"]),
    ("grouped heads", BOTH), ("one head of keys", ["- xy", "- xy"]), ("too few heads of keys", ["- yx", "- yx"]),
    ("keys elsewhere", ["x", "x"]), ("packed", ["- y", "y"]), ("paged", BOTH), ("alibi of heads", BOTH),
    ("alibi of batch", BOTH), ("sinks", BOTH), ("lens_k", BOTH), ("starts_k", BOTH), ("bias of all", BOTH), ("bias of heads", BOTH),
    ("bias of none", BOTH), ("vmap", ["x", "x"]), ("manual", BOTH), ("explicit", BOTH), ("explicit, keys elsewhere", BOTH)])
def test_every_device_computes_its_part(outcomes, case, specs):
    found = of_case(outcomes, case)
    assert found["specs"] == specs and found["collectives"] == [] and found["apart"] == 0.0


@pytest.mark.parametrize("case, specs, collectives", [
    ("gradients, batch", ["x"] * 3, []), ("gradients, heads", ["- xy"] * 3, []),
    ("gradients, sinks", ["x", "x", "x", ""], ["all-reduce"]), ("gradients, one head of keys", ["- xy", "", ""], ["all-reduce"]),
    ("gradients, bias of heads", ["x y", "x y", "x y", "y"], ["all-reduce"]), ("explicit, gradients", ["x y"] * 3, [])])
def test_gradients_stay_where_the_arrays_are(outcomes, case, specs, collectives):
    """Gradients to which every device contributes, such as that of sinks, are summed; nothing is gathered."""
    found = of_case(outcomes, case)
    assert found["specs"] == specs and found["collectives"] == collectives and found["apart"] < 1e-5


@pytest.mark.parametrize("case", ["rows", "heads that cannot be cut"])
def test_what_cannot_be_split_is_gathered(outcomes, case):
    found = of_case(outcomes, case)
    assert found["collectives"] == ["all-gather"] and found["apart"] == 0.0


def test_inside_of_a_shard_map_over_one_axis(outcomes):
    assert of_case(outcomes, "partly manual")["apart"] == 0.0


def test_without_jit(outcomes):
    assert of_case(outcomes, "without jit")["specs"] == BOTH
