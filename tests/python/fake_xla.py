"""fake_xla.py: replaces XLA: calls attest's foreign functions as declared in python/core/xla_ffi.h, on NumPy's
memory."""

import ctypes

import attest._core as core
import numpy as np

STREAM = 0x7000
allocated = []  # bytes of every request for scratch memory
freed = []
errors = []  # (code, message) of every error

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _struct(*fields):
    """A struct that begins with its size and a list of extensions."""
    return type("Struct", (ctypes.Structure,), {"_fields_": [("size", ctypes.c_size_t), ("extension", ctypes.c_void_p), *fields]})


Version = _struct(("major", ctypes.c_int), ("minor", ctypes.c_int))
Buffer = _struct(("type", ctypes.c_int), ("data", ctypes.c_void_p), ("rank", ctypes.c_int64), ("dims", ctypes.c_void_p))
Values = _struct(("count", ctypes.c_int64), ("types", ctypes.c_void_p), ("values", ctypes.c_void_p))
Attributes = _struct(("count", ctypes.c_int64), ("types", ctypes.c_void_p), ("names", ctypes.c_void_p),
                     ("values", ctypes.c_void_p))
ErrorArgs = _struct(("message", ctypes.c_char_p), ("code", ctypes.c_int))
StreamArgs = _struct(("context", ctypes.c_void_p), ("stream", ctypes.c_void_p))
AllocateArgs = _struct(("context", ctypes.c_void_p), ("bytes", ctypes.c_size_t), ("alignment", ctypes.c_size_t),
                       ("data", ctypes.c_void_p))
FreeArgs = _struct(("context", ctypes.c_void_p), ("bytes", ctypes.c_size_t), ("data", ctypes.c_void_p))
OrdinalArgs = _struct(("context", ctypes.c_void_p), ("ordinal", ctypes.c_int32))
Function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
Api = _struct(("version", Version), ("internal", ctypes.c_void_p), ("error_create", Function),
              ("unused_1", ctypes.c_void_p * 3), ("stream_get", Function), ("unused_2", ctypes.c_void_p * 4),
              ("memory_allocate", Function), ("memory_free", Function), ("unused_3", ctypes.c_void_p * 6),
              ("device_ordinal", Function))
Frame = _struct(("api", ctypes.c_void_p), ("context", ctypes.c_void_p), ("stage", ctypes.c_int), ("arguments", Values),
                ("results", Values), ("attributes", Attributes))


class Text(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("length", ctypes.c_size_t)]


class Array(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("count", ctypes.c_size_t), ("data", ctypes.c_void_p)]


class Extension(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("type", ctypes.c_int), ("next", ctypes.c_void_p), ("metadata", ctypes.c_void_p)]


class Metadata(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("version", Version), ("traits", ctypes.c_uint32)]


def _make(kind, **fields):
    return kind(size=ctypes.sizeof(kind), **fields)


@Function
def _error_create(args):
    made = ErrorArgs.from_address(args)
    errors.append((made.code, made.message.decode()))
    return len(errors)


@Function
def _stream_get(args):
    StreamArgs.from_address(args).stream = STREAM


_scratch = {}


@Function
def _memory_allocate(args):
    asked = AllocateArgs.from_address(args)
    if asked.alignment > 16:
        errors.append((3, f"Unsupported alignment: {asked.alignment}"))  # like XLA
        return len(errors)
    memory = np.zeros(asked.bytes + 128, np.uint8)
    asked.data = (memory.ctypes.data + 63) // 64 * 64 + asked.alignment  # and no more alignment
    _scratch[asked.data] = memory
    allocated.append(asked.bytes)
    return None


@Function
def _memory_free(args):
    done = FreeArgs.from_address(args)
    del _scratch[done.data]
    freed.append(done.bytes)


ordinal = 0


@Function
def _device_ordinal(args):
    OrdinalArgs.from_address(args).ordinal = ordinal


api = _make(Api, error_create=_error_create, stream_get=_stream_get, memory_allocate=_memory_allocate,
            memory_free=_memory_free, device_ordinal=_device_ordinal)
api.version.minor = 4


def handler(platform, operation="attention"):
    capsule = core.jax_handlers()[operation][platform]
    return ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(_pointer(capsule, b"xla._CUSTOM_CALL_TARGET"))


def metadata(platform, api_given=True):
    """(major, minor, traits) with which the handler is registered; older releases pass no table of functions then."""
    told = _make(Metadata)
    frame = _make(Frame, api=ctypes.addressof(api) if api_given else None)
    extension = Extension(ctypes.sizeof(Extension), 1, None, ctypes.addressof(told))
    frame.extension = ctypes.addressof(extension)
    assert not handler(platform)(ctypes.addressof(frame))
    return told.version.major, told.version.minor, told.traits


def _values(arrays):
    buffers = [_make(Buffer, data=array.ctypes.data, rank=array.ndim) for array in arrays]
    types = (ctypes.c_int * len(arrays))(*[1] * len(arrays))
    pointers = (ctypes.c_void_p * len(arrays))(*map(ctypes.addressof, buffers))
    return _make(Values, count=len(arrays), types=ctypes.addressof(types), values=ctypes.addressof(pointers)), (
        buffers, types, pointers)


def call(platform, arguments, results, problem, stage=3, operation="attention"):
    """Run the handler; None, or (code, message) of its error."""
    words = np.frombuffer(problem, np.int64).copy()
    array, name = Array(5, len(words), words.ctypes.data), Text(b"problem", 7)
    types, names = (ctypes.c_int * 1)(1), (ctypes.c_void_p * 1)(ctypes.addressof(name))
    values = (ctypes.c_void_p * 1)(ctypes.addressof(array))
    given, keep = _values(arguments)
    wanted, keep_too = _values(results)
    frame = _make(Frame, api=ctypes.addressof(api), stage=stage, arguments=given, results=wanted,
                  attributes=_make(Attributes, count=1, types=ctypes.addressof(types), names=ctypes.addressof(names),
                                   values=ctypes.addressof(values)))
    failed = handler(platform, operation)(ctypes.addressof(frame))
    del keep, keep_too
    return errors[failed - 1] if failed else None
