"""How a call of attest.jax is split over devices: by batch and by heads, which attention does not mix.

Every array has a tuple of labels, one per axis: "b" batch, "h" heads of q, "kv" heads of k and v, None for an axis that
every device needs whole. The shardings of the arrays determine the mesh axes that split the batch and the heads; those
and the labels determine the shardings of all arrays. Each device then runs attest on its own part. The only
communication is for the gradients of arrays that several devices share: they are summed.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import jax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding, PartitionSpec

Labels = Tuple[Optional[str], ...]
Shape = Tuple[int, ...]


class Split(NamedTuple):
    """The mesh axes for each label; each of them divides its axis evenly."""

    b: Tuple[str, ...] = ()
    h: Tuple[str, ...] = ()
    kv: Tuple[str, ...] = ()  #: those of `h`, or only the first of them if a shard of q has one head of k and v


class Arrays(NamedTuple):
    """Labels and shapes of the inputs of a call, and labels of its results."""

    labels: Tuple[Labels, ...]
    shapes: Tuple[Shape, ...]
    results: Tuple[Labels, ...]  #: of O and LSE, or of gradients
    summed: bool = False  #: results are summed over the mesh axes that split the call and that are not in their labels


def _of_rows(layout: str, batch: Optional[str], heads: str) -> Labels:
    return (batch, None, heads, None) if layout == "bshd" else (batch, heads, None, None)


def arrays_of(layout: str, names: Sequence[str], shapes: Sequence[Shape]) -> Arrays:
    """For q, k, v and the arrays of these names. Packed sequences share one axis, so they have no batch to split."""
    packed_q, paged = "cu_seqlens_q" in names, "page_table" in names
    packed_k = "cu_seqlens_k" in names and not paged
    batch = None if packed_q or "cu_seqlens_k" in names else "b"
    q = (None, "h", None) if packed_q else _of_rows(layout, batch, "h")
    kv = (None, "kv", None) if packed_k else _of_rows(layout, None if paged else batch, "kv")
    known: Dict[str, Labels] = {"alibi": (batch, "h"), "bias": (batch, "h", None, None), "sinks": ("h",), "lens_k": (batch,),
                                "starts_k": (batch,), "q_offset": (batch,), "k_offset": (batch,),
                                "page_table": (batch, None), "cu_seqlens_q": (None,), "cu_seqlens_k": (None,)}
    labels: List[Labels] = [q, kv, kv]
    for name, shape in zip(names, shapes[3:]):
        own = known[name][len(known[name]) - len(shape):]
        labels.append(tuple(label if size > 1 else None for label, size in zip(own, shape)))
    return Arrays(tuple(labels), tuple(shapes), (q, ("h", None) if packed_q else (batch, "h", None)))


def arrays_of_gradients(forward: Arrays, names: Sequence[str], wanted: Sequence[str], shapes: Sequence[Shape]) -> Arrays:
    """For a call with O, LSE and d_o after the arrays of `forward`; results: gradients of q, k, v and `wanted`.

    A gradient has the labels of its array: every device contributes to an array that every device has whole.
    """
    labels = (*forward.labels, *forward.results, forward.results[0])
    own = dict(zip(names, forward.labels[3:]))
    return Arrays(labels, tuple(shapes), (*forward.labels[:3], *(own[name] for name in wanted)), True)


def _size(arrays: Arrays, label: str) -> int:
    for labels, shape in zip(arrays.labels, arrays.shapes):
        if label in labels:
            return shape[labels.index(label)]
    return 1


def _dividing(axes: Sequence[str], sizes: Dict[str, int], length: int) -> Tuple[str, ...]:
    """As many of the first mesh axes as together divide the length evenly."""
    taken: List[str] = []
    for axis in axes:
        if length % sizes[axis]:
            break
        length //= sizes[axis]
        taken.append(axis)
    return tuple(taken)


def split_of(arrays: Arrays, sizes: Dict[str, int], given: Sequence[Tuple[Labels, Sequence[Any]]]) -> Split:
    """The split of the first array, in this order, that is split at all; `given`: labels and partition specs."""

    def first(wanted: Tuple[str, ...], used: Tuple[str, ...]) -> Tuple[str, ...]:
        for labels, spec in given:
            for label, entry in zip(labels, spec):
                axes = entry if isinstance(entry, tuple) else (entry,)
                axes = tuple(axis for axis in axes if isinstance(axis, str) and axis in sizes and axis not in used)
                if label in wanted and axes:
                    return axes
        return ()

    b = _dividing(first(("b",), ()), sizes, _size(arrays, "b"))
    heads, heads_kv = _size(arrays, "h"), _size(arrays, "kv")
    h = _dividing(first(("h", "kv"), b), sizes, heads)
    kv = _dividing(h, sizes, heads_kv)
    left = heads_kv
    for axis in kv:
        left //= sizes[axis]
    if left > 1:  # splitting further would give a shard of q several heads of k and v, but not all of them
        h = kv
    return Split(b, h, kv)


def spec_of(labels: Labels, split: Split) -> PartitionSpec:
    return PartitionSpec(*((getattr(split, label) or None) if label else None for label in labels))


def rule_of(arrays: Arrays) -> Tuple[str, Dict[str, int]]:
    """Shardy's rule, and the sizes of its factors that are not a whole axis."""
    group = _size(arrays, "h") // _size(arrays, "kv")
    heads = {"h": "h", "kv": "h"}
    if group > 1:
        heads = {"h": "h", "kv": "one"} if _size(arrays, "kv") == 1 else {"h": "(kv g)", "kv": "kv"}
    count = 0

    def words(labels: Labels) -> str:
        nonlocal count
        said = []
        for label in labels:
            count += 1
            said.append("b" if label == "b" else heads[label] if label else f"x{count}")
        return " ".join(said)

    text = f"{', '.join(map(words, arrays.labels))} -> {', '.join(map(words, arrays.results))}"
    return text, {"g": group} if "g" in text else {}


def _sizes(mesh: Any) -> Dict[str, int]:
    return dict(mesh.shape)


def _given(arrays: Arrays, inputs: Sequence[Any], results: Sequence[Any] = ()) -> List[Tuple[Labels, Sequence[Any]]]:
    """Labels with specs, for q, O, k, v and then the rest."""
    pairs = list(zip(arrays.labels, inputs))
    if not arrays.summed:  # gradients are placed like their arrays
        pairs[1:1] = list(zip(arrays.results, results))
    return [(labels, sharding.spec) for labels, sharding in pairs if isinstance(sharding, NamedSharding)]


def _with_sums(call: Callable, arrays: Arrays, split: Split) -> Callable:
    """`call` on one device's part, with the sums over devices that its results need."""
    axes = (*split.b, *split.h)
    if not arrays.summed or not axes:
        return call

    def summed(*values):
        results = []
        for result, labels in zip(call(*values), arrays.results):
            own = {axis for label in labels if label for axis in getattr(split, label)}
            others = tuple(axis for axis in axes if axis not in own)
            results.append(jax.lax.psum(result.astype("float32"), others).astype(result.dtype) if others else result)
        return tuple(results)

    return summed


@functools.lru_cache(maxsize=None)
def partitioned(call: Callable, arrays: Arrays) -> Callable:
    """`call` with a rule for XLA's partitioner, for arrays of these shapes; compiled if it is not inside jit."""
    wrapped = custom_partitioning(call)

    def shardings(mesh, split):
        return (tuple(NamedSharding(mesh, spec_of(labels, split)) for labels in arrays.results),
                tuple(NamedSharding(mesh, spec_of(labels, split)) for labels in arrays.labels))

    def partition(mesh, inputs, results):
        given = _given(arrays, [x.sharding for x in inputs], [x.sharding for x in results])
        split = split_of(arrays, _sizes(mesh), given)
        return mesh, _with_sums(call, arrays, split), *shardings(mesh, split)

    def infer(mesh, inputs, _results):
        return shardings(mesh, split_of(arrays, _sizes(mesh), _given(arrays, [x.sharding for x in inputs])))[0]

    text, factors = rule_of(arrays)
    try:
        wrapped.def_partition(partition, infer_sharding_from_operands=infer, sharding_rule=text, **factors)
    except TypeError:  # in releases whose rules do not support factors, and whose partitioner does not need them
        wrapped.def_partition(partition, infer_sharding_from_operands=infer)
    return jax.jit(wrapped)


def _explicit_mesh(arrays: Sequence[Any]) -> Optional[Any]:
    """The mesh of arrays whose types say how they are split; None if the compiler decides."""
    if not hasattr(jax, "shard_map") or not hasattr(jax, "typeof"):  # in releases before 0.7
        return None
    for array in arrays:
        mesh = getattr(getattr(jax.typeof(array), "sharding", None), "mesh", None)
        if mesh is not None and jax.sharding.AxisType.Explicit in (getattr(mesh, "axis_types", None) or ()):
            return mesh
    return None


def split_over_devices(call: Callable, arrays: Arrays, values: Sequence[Any]) -> Any:
    """`call` with these values; every device computes its own part of the batch and of the heads."""
    mesh = _explicit_mesh(values)
    if mesh is None:
        return partitioned(call, arrays)(*values)
    known = [jax.typeof(value).sharding for value in values]
    split = split_of(arrays, _sizes(mesh), _given(arrays, known))
    specs = [spec_of(labels, split) for labels in arrays.labels]
    moved = [jax.sharding.reshard(value, NamedSharding(mesh, spec)) for value, spec in zip(values, specs)]
    results = tuple(spec_of(labels, split) for labels in arrays.results)
    return jax.shard_map(_with_sums(call, arrays, split), mesh=mesh, in_specs=tuple(specs), out_specs=results, check_vma=False)(*moved)
