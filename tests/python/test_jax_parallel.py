"""test_jax_parallel.py: attest.jax.parallel, a ring over the devices of a mesh axis: answers, bits and messages."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not here: its tests are left out")
if not hasattr(jax, "shard_map"):
    pytest.skip(f"JAX {jax.__version__} has no jax.shard_map", allow_module_level=True)

from attest._parallel.band import Mask  # noqa: E402
from attest._parallel.parts import Parts  # noqa: E402
from attest.jax import parallel  # noqa: E402
from attest.jax.parallel.schedule import Schedule  # noqa: E402


def run(*scenes, **more):
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=8", **more}
    done = subprocess.run([sys.executable, Path(__file__).with_name("jax_ring_path.py"), *scenes], env=environment, check=False,
                          capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def small():
    return run("messages", "outputs", "by_batch", "refusals")


@pytest.mark.parametrize("make", [parallel.zigzag, parallel.contiguous])
def test_shards_join_to_the_whole(make):
    cut, x = make(48, 4), np.arange(2 * 48).reshape(2, 48)
    assert np.array_equal(cut.join(cut.shard(x)), x)
    assert np.array_equal(cut.shard(x), x[:, cut.positions()])


@pytest.mark.parametrize("wrong", [lambda: parallel.zigzag(50, 4), lambda: parallel.contiguous(48, 4, pieces=6),
                                   lambda: parallel.zigzag(48, 0), lambda: parallel.zigzag(48, 4).shard(np.zeros((1, 47)))])
def test_a_cut_that_does_not_fit(wrong):
    with pytest.raises(ValueError):
        wrong()


def test_parts_of_one_kind_are_compiled_once():
    """Wherever they are: none, all and the diagonal, for any number of devices."""
    for make, mask, kinds in ((parallel.zigzag, Mask(True), 3), (parallel.contiguous, Mask(), 2)):
        cut = make(96, 8)
        assert len(Schedule(Parts(cut, cut, mask)).bands) == kinds


def test_every_mask_on_several_devices():
    """O and gradients of 2, 3, 4 and 8 devices, float32 and bfloat16, within the bar of one call; those of sinks and
    slopes too."""
    found = run("every_mask", JAX_DISABLE_MOST_OPTIMIZATIONS="1")["every_mask"]  # compiling takes longest
    assert len(found) == 27 and {name: each for name, each in found.items() if each > 1} == {}


def test_the_same_cut_has_the_same_bits():
    """From run to run, and on 1, 2, 4 and 8 devices."""
    found = run("digests")["digests"]
    assert {name: (len(each), len(set(each))) for name, each in found.items()} == {"full": (8, 1), "causal": (6, 1), "window": (4, 1)}


def test_a_step_sends_k_and_v_once(small):
    """At most K and V of every shard per step, and nothing else that grows with the sequence; with windows, only
    what is visible."""
    for name, each in small["messages"].items():
        sent, shards = each["sent"], each["shards"]
        assert sent and all(0 < bytes_of_step <= shards for bytes_of_step in sent.values()), name
    whole = {name: sum(each["sent"].values()) for name, each in small["messages"].items()}
    assert set(small["messages"]["full 96"]["sent"]) == {"1", "2", "3"}
    assert small["messages"]["window 96"]["sent"].keys() == {"1"} and whole["window 96"] < whole["causal 96"] < whole["full 96"]
    assert all(whole[f"{name} 192"] == 2 * whole[f"{name} 96"] for name in ("full", "causal", "window"))


def test_log_sums_layout_vmap_and_eager_calls(small):
    found = small["outputs"]
    assert max(found[name] for name in ("lse", "o", "bshd", "vmap", "eager", "window")) < 2e-6
    assert sorted(found["positions"]) == list(range(96)) and found["positions"][:14] == [*range(12), 84, 85]


def test_calls_of_one_device_inside_shard_map(small):
    """With types that say what differs between devices; gradients of shared arrays are summed."""
    assert small["by_batch"].keys() == {"attention", "moe"} and max(small["by_batch"].values()) < 1e-5


def test_mistakes_are_told(small):
    said = small["refusals"]
    for text, part in zip(said, ("for 4 devices, the axis 'ring' has 2", "8 rows on each device", "different length", "layout is 'hbsd'",
                                 "causal is 'middle'", "window is (4, -2)", "expected 'top-left'", "lens_k is float32", "16 rows on each device")):
        assert part in text, said
