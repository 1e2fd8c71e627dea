"""fake_cupy.py: replaces CuPy on the fake driver (tests/fake_cuda): its arrays claim to be on a GPU."""

import ctypes
import sys
import types

import numpy as np

STREAM = 0x5000  # the current stream of the first GPU; that of each further one is one more
made = []  # shape and dtype of every array that was requested

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("byte_offset", ctypes.c_uint64)]


class _Managed(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Tensor)]


class Device:
    """A GPU, the current one within a `with` block."""

    current = [0]

    def __init__(self, number):
        self.number = number

    def __enter__(self):
        self.current.append(self.number)

    def __exit__(self, *exception):
        self.current.pop()


class ndarray:
    def __init__(self, array, device=(2, 0)):
        self.array, self.place, self.device, self.streams = array, device, Device(device[1]), []
        self._shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        self._strides = (ctypes.c_int64 * array.ndim)(*(step // array.itemsize for step in array.strides))

    def __dlpack__(self, *, stream=None, max_version=None):
        self.streams.append(stream)
        code = {"f": 2, "i": 0, "u": 1}[self.array.dtype.kind]
        self._managed = _Managed(1, 0, None, None, 0, _Tensor(
            self.array.ctypes.data, *self.place, self.array.ndim, code, self.array.itemsize * 8, 1,
            ctypes.addressof(self._shape), ctypes.addressof(self._strides), 0))
        assert max_version == (1, 0)
        return _new_capsule(ctypes.addressof(self._managed), b"dltensor_versioned", None)

    def __dlpack_device__(self):
        return self.place


def empty(shape, dtype):
    made.append((tuple(shape), dtype))
    return ndarray(np.zeros(shape, dtype), (2, Device.current[-1]))


def current_stream():
    return types.SimpleNamespace(ptr=STREAM + Device.current[-1])


ndarray.__module__ = "cupy"
sys.modules["cupy"] = types.SimpleNamespace(
    ndarray=ndarray, empty=empty,
    cuda=types.SimpleNamespace(get_current_stream=current_stream))
