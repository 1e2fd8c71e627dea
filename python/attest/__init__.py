"""attest: fused attention on arrays of NumPy, PyTorch, CuPy and JAX, without a copy.

    import attest
    o = attest.attention(q, k, v, causal=True)

`attest.torch` is the drop-in for PyTorch's scaled_dot_product_attention; it is imported on first use.
"""

from __future__ import annotations

import os
import warnings
from typing import NamedTuple, Optional

from . import _core
from ._core import Error, UnsupportedError, attention, backward, explain, explain_backward, merge, moe
from ._core import version as __version__

__all__ = ["Device", "Error", "Kernel", "Launch", "PlanCache", "UnsupportedError", "attention", "backward",
           "cache_clear", "cache_info", "devices", "explain", "explain_backward", "kernels", "last_launch", "merge", "moe",
           "set_threads"]

_CPU, _CUDA = 1, 2  # att_device


def _warn_of_namesake(folder):
    """Warn about another package: this one's distribution is libattest. The distribution called attest is another
    project with the same module folder."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        if name.startswith("attest-") and name.endswith((".dist-info", ".egg-info")):
            warnings.warn(f"{folder} also holds {name}, another project whose modules are called attest too. Only one can be installed: "
                          "pip uninstall attest, then pip install --force-reinstall libattest", RuntimeWarning, stacklevel=3)


_warn_of_namesake(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Launch(NamedTuple):
    """What ran, as recorded by the code that ran, not by the code that chose it."""

    kernel: str
    grid: tuple[int, int, int]  #: CPU: tasks, splits of K/V, 1
    block: tuple[int, int, int]  #: CPU: threads that took part, 1, 1
    shared_bytes: int  #: CPU: scratch bytes per thread; GPU: dynamic bytes per block
    registers: int  #: GPU: per thread; CPU: 0
    code_sha256: str  #: GPU: digest of the machine code given to the driver; CPU: ""


class Device(NamedTuple):
    """A device that attest computes on."""

    device: str  #: "cpu", "cuda:0" …
    name: str
    isa: str  #: CPU: the highest instruction set in use
    threads: int  #: CPU: threads per run
    compute_capability: int  #: GPU: 90 is 9.0
    memory_bytes: int  #: GPU
    uuid: str  #: GPU


class Kernel(NamedTuple):
    """A kernel of the library."""

    id: str
    device: str  #: "cpu" or "cuda"
    available: bool  #: whether the requested device can run it
    role: str
    summary: str
    dtype: str  #: "": any
    d_qk: int  #: the largest supported head dimension
    d_v: int
    rung: bool  #: a step of the ladder: used only if slow kernels are allowed
    attested: bool  #: False: ships without evidence and is off by default
    operation: str  #: "attention", "backward", "merge", "moe"


class PlanCache(NamedTuple):
    """The cache of plans, one per problem."""

    hits: int
    misses: int
    plans: int
    limit: int


def last_launch() -> Optional[Launch]:
    """What the last attention(), backward(), merge() or moe() of this thread ran; None before the first."""
    latest = _core.last_launch()
    return Launch(*latest) if latest else None


def devices() -> list[Device]:
    """The CPU, then every GPU that attest can use."""
    return [Device(*each) for each in _core.devices()]


def kernels(device: str = "cpu") -> list[Kernel]:
    """Every kernel of the library, from the point of view of `device` ("cpu", "cuda" or "cuda:N")."""
    kind, _, index = device.partition(":")
    if device == "cpu":
        found = _core.kernels(_CPU, 0)
    elif kind == "cuda" and (index or "0").isdigit():
        found = _core.kernels(_CUDA, int(index or 0))
    else:
        raise ValueError(f"device is {device!r}; expected 'cpu', 'cuda' or 'cuda:N'")
    return [Kernel(*each) for each in found]


def cache_info() -> PlanCache:
    """How often a call found an existing plan, and how many plans are kept."""
    return PlanCache(*_core.cache_info())


def cache_clear() -> None:
    """Discard every plan."""
    _core.cache_clear()


def set_threads(count: int) -> None:
    """Let calls on the CPU use `count` threads from now on; 0: the library's default (ATTEST_THREADS, or one per
    core)."""
    _core.set_threads(count)
