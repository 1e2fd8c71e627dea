"""fake_exchange.py: arrays of a fake GPU (tests/fake_cuda), exchanged through DLPack's table of functions, like
PyTorch's."""

import ctypes

import numpy as np
from fake_cupy import _Managed, _new_capsule, _Tensor

STREAM = 0x6000  # the current stream
made = {}  # what was allocated and not released, by the address of its record
allocations = []  # elements of each request
refuse_more_than = None  # elements
without_strides = False

_Deleter = ctypes.PYFUNCTYPE(None, ctypes.POINTER(_Managed))
_Fail = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)


class array:
    """NumPy's memory, or that of a record that it owns."""

    def __init__(self, memory, managed=None):
        self.memory, self.managed = memory, managed

    def __del__(self):
        if self.managed:
            _delete(self.managed)

    def __dlpack__(self, **options):
        raise AssertionError("there is a table")


def _strides(memory):
    return [step // memory.itemsize for step in memory.strides]


@_Deleter
def _delete(managed):
    del made[ctypes.addressof(managed.contents)]


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Tensor), ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, _Fail)
def _allocate(prototype, out, context, fail):
    like = prototype.contents
    shape = (ctypes.c_int64 * like.ndim).from_address(like.shape)[:]
    allocations.append(int(np.prod(shape)))
    if refuse_more_than is not None and allocations[-1] > refuse_more_than:
        try:
            fail(context, b"MemoryError", b"the fake GPU is full")
        except MemoryError:  # a ctypes callback must not leave it set
            pass
        return -1
    memory = np.zeros(shape, {(2, 16): np.float16, (2, 32): np.float32, (1, 8): np.uint8}[like.code, like.bits])
    sizes = (ctypes.c_int64 * like.ndim)(*shape)
    strides = (ctypes.c_int64 * like.ndim)(*_strides(memory))
    managed = _Managed(1, 3, None, ctypes.cast(_delete, ctypes.c_void_p), 0, _Tensor(
        memory.ctypes.data, like.device_type, like.device_id, like.ndim, like.code, like.bits, 1,
        ctypes.addressof(sizes), 0 if without_strides else ctypes.addressof(strides), 0))
    made[ctypes.addressof(managed)] = (managed, memory, sizes, strides)
    out[0] = ctypes.addressof(managed)
    return 0


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Managed), ctypes.POINTER(ctypes.c_void_p))
def _to_object(managed, out):
    tensor = managed.contents.tensor
    memory = made[ctypes.addressof(managed.contents)][1]
    shape = (ctypes.c_int64 * tensor.ndim).from_address(tensor.shape)[:]
    strides = (ctypes.c_int64 * tensor.ndim).from_address(tensor.strides)[:]
    view = np.lib.stride_tricks.as_strided(memory.reshape(-1), shape, [step * memory.itemsize for step in strides])
    answer = array(view, managed)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(answer))
    out[0] = id(answer)
    return 0


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(_Tensor))
def _look_into(given, out):
    memory = given.memory
    given.sizes = (ctypes.c_int64 * memory.ndim)(*memory.shape)
    given.strides = (ctypes.c_int64 * memory.ndim)(*_strides(memory))
    out[0] = _Tensor(memory.ctypes.data, 2, 0, memory.ndim, {"f": 2, "i": 0}[memory.dtype.kind], memory.itemsize * 8, 1,
                     ctypes.addressof(given.sizes), ctypes.addressof(given.strides), 0)
    return 0


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
def _stream(kind, index, out):
    out[0] = STREAM
    return 0


class _Table(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32)] + [
        (name, ctypes.c_void_p) for name in ("previous", "allocate", "managed_from_object", "to_object", "look_into", "stream")]


def _table(major, previous, *functions):
    return _Table(major, 3, previous, *(ctypes.cast(each, ctypes.c_void_p) if each else None for each in functions))


_tables = [_table(1, None, _allocate, None, _to_object, _look_into, _stream)]
_tables.append(_table(2, ctypes.addressof(_tables[0]), None, None, None, None, None))  # of a later version, first
_name = b"dlpack_exchange_api"  # which the capsule does not copy
array.__dlpack_c_exchange_api__ = _new_capsule(ctypes.addressof(_tables[1]), _name, None)
