"""What the extension needs from each framework: how to make an array, find its stream, and export unusual arrays.

An adapter is any object with some of these attributes; missing ones are not needed:
    refuse(array)               a text why the array cannot be accepted now, or None
    refuse_when, refuse_apart, refuse_if, refuse_if_when
                                if all are given, `refuse` is called only when one of them holds: a condition as in
                                quick_call.h; a method, called on arrays whose last axis is not dense; the name of an
                                attribute that is true, checked while the last condition holds
    export(array)               (array, stands_for, read_only): an array that __dlpack__ can export, the dtype that its
                                elements stand for ("" if it is its own), and whether it must not be written; or None
    empty(like, shape, dtype)   a new array on the device of `like`
    finish(made, dtype)         converts the result of `empty` for the caller
    stream(array)               the current stream of the array's GPU as an int, or None
    immutable                   True if arrays must not be written
"""

from __future__ import annotations

import sys


class NumpyAdapter:
    """NumPy. Releases before 2.1 do not export bool or read-only arrays through DLPack, and no release exports
    bfloat16.

    NumPy has no bfloat16 itself: ml_dtypes has one. After saving and loading, its elements are two untyped bytes.
    """

    class _Writable:
        """An array's memory through NumPy's own protocol, without the read-only mark."""

        def __init__(self, array):
            interface = dict(array.__array_interface__)
            interface["data"] = (interface["data"][0], False)
            self.__array_interface__ = interface
            self.base = array

    @staticmethod
    def _is_bfloat16(dtype):
        return dtype.name in ("bfloat16", "void16") and dtype.names is None and dtype.itemsize == 2

    @classmethod
    def empty(cls, like, shape, dtype):
        return sys.modules["numpy"].empty(shape, like.dtype if dtype == "bfloat16" else dtype)

    @classmethod
    def export(cls, array):
        numpy = sys.modules["numpy"]
        read_only = not array.flags.writeable
        stands_for = "bool" if array.dtype == numpy.bool_ else "bfloat16" if cls._is_bfloat16(array.dtype) else ""
        if not read_only and not stands_for:
            return None
        if stands_for:
            array = array.view(numpy.uint8 if stands_for == "bool" else numpy.uint16)
        if read_only:
            array = numpy.asarray(cls._Writable(array))
        return array, stands_for, read_only


class TorchAdapter:
    """PyTorch. Its exchange table handles memory and streams; the rest is for releases without one."""

    refuse_if = "requires_grad"

    def __init__(self, torch):
        from torch.autograd import forward_ad

        self._torch, self._forward_ad = torch, forward_ad
        self.refuse_when = forward_ad.__dict__, "_current_level", -1
        self.refuse_if_when = torch.is_grad_enabled
        # Only the imaginary part of a conjugate has a pending negation: its elements are two apart.
        self.refuse_apart = torch.empty(0).is_neg

    def refuse(self, array):
        if self._forward_ad._current_level >= 0 and self._forward_ad.unpack_dual(array).tangent is not None:
            return "has a tangent, and attest computes none: torch.func.jvp of PyTorch's own function does"
        if array.is_neg():
            return "is a view with its sign to be turned: resolve_neg() makes it plain"
        if array.requires_grad and self._torch.is_grad_enabled():
            return ("requires a gradient, and calls of attest itself record none: use attest.torch.attention(), "
                    "attest.torch.merge() and attest.torch.moe(), detach() or torch.no_grad()")
        return None

    def empty(self, like, shape, dtype):
        return self._torch.empty(shape, dtype=getattr(self._torch, dtype), device=like.device)

    def export(self, array):
        return (array.detach(), "", False) if array.requires_grad else None

    def stream(self, array):
        if not array.is_cuda:
            return None
        return self._torch.cuda.current_stream(array.device).cuda_stream


class CupyAdapter:
    """CuPy: always on a GPU, which need not be the current one: new arrays and streams are those of the current one."""

    @staticmethod
    def empty(like, shape, dtype):
        with like.device:
            return sys.modules["cupy"].empty(shape, dtype)

    @staticmethod
    def stream(array):
        with array.device:
            return sys.modules["cupy"].cuda.get_current_stream().ptr


class JaxAdapter:
    """JAX on the CPU: its arrays are immutable, so the result is computed in NumPy's memory and wrapped."""

    immutable = True

    @staticmethod
    def refuse(array):
        if isinstance(array, sys.modules["jax"].core.Tracer):
            return "is being traced: attest.jax.attention() is for programs of JAX"
        if next(iter(array.devices())).platform != "cpu":
            return "is a JAX array on an accelerator, whose stream JAX does not tell: use attest.jax.attention()"
        return None

    @staticmethod
    def empty(like, shape, dtype):
        import numpy

        return numpy.empty(shape, "uint16" if dtype == "bfloat16" else dtype)

    @staticmethod
    def finish(made, dtype):
        jax_numpy = sys.modules["jax"].numpy
        return jax_numpy.asarray(made.view(jax_numpy.bfloat16) if dtype == "bfloat16" else made)


class GenericAdapter:
    """Any other array of the Python array API, on the CPU."""

    @staticmethod
    def empty(like, shape, dtype):
        namespace = like.__array_namespace__()
        return namespace.empty(shape, dtype=getattr(namespace, dtype))


def _torch_adapter(kind, name):
    torch = sys.modules["torch"]
    if kind.__torch_dispatch__ is not torch._C._disabled_torch_dispatch_impl:
        raise TypeError(f"{name} is a {kind.__name__}, a tensor without memory of its own: "
                        "use attest.torch.attention()")
    return TorchAdapter(torch)


def adapter(kind, name):
    """The adapter for a type of array; for other objects, TypeError naming the argument."""
    roots = {base.__module__.partition(".")[0] for base in kind.__mro__}
    if "torch" in roots and hasattr(kind, "__torch_dispatch__"):
        return _torch_adapter(kind, name)
    if not hasattr(kind, "__dlpack__"):
        raise TypeError(f"{name} is a {kind.__name__}; expected an array that offers DLPack "
                        "(NumPy, PyTorch, CuPy, JAX …)")
    if "numpy" in roots:
        return NumpyAdapter()
    if "cupy" in roots:
        return CupyAdapter()
    if "jax" in roots or "jaxlib" in roots:
        return JaxAdapter()
    return GenericAdapter()
