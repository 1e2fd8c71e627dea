"""include/attest.h by ctypes, as far as the benchmarks need it."""
import ctypes
import os


class Strides(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int64) for n in ("batch", "head", "row", "col")]


class Problem(ctypes.Structure):
    _fields_ = (
        [("size", ctypes.c_size_t), ("features", ctypes.c_uint32), ("dtype", ctypes.c_int), ("dtype_o", ctypes.c_int)]
        + [(n, ctypes.c_int64) for n in ("batch", "heads_q", "heads_kv", "seq_q", "seq_k", "d_qk", "d_v")]
        + [(n, Strides) for n in ("q", "k", "v", "o", "lse")]
        + [("scale", ctypes.c_float), ("causal", ctypes.c_int), ("align", ctypes.c_int)]
        + [("window_left", ctypes.c_int64), ("window_right", ctypes.c_int64), ("softcap", ctypes.c_float)]
        + [("alibi_stride_batch", ctypes.c_int64), ("bias_dtype", ctypes.c_int), ("bias", Strides)]
        + [(n, ctypes.c_int64) for n in ("total_q", "total_k", "page_size", "num_pages", "page_table_stride",
                                         "alignment")]
    )


class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("device", ctypes.c_int), ("device_index", ctypes.c_int32),
                ("threads", ctypes.c_int32), ("isa", ctypes.c_int), ("flags", ctypes.c_uint32),
                ("cache_dir", ctypes.c_char_p), ("kernel", ctypes.c_char_p), ("rows", ctypes.c_char_p),
                ("rows_file", ctypes.c_char_p)]


class Launch(ctypes.Structure):
    _fields_ = [("kernel", ctypes.c_char_p), ("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3),
                ("shared_bytes", ctypes.c_uint64), ("registers", ctypes.c_uint32), ("code_sha256", ctypes.c_char * 65)]


class Args(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t)] + [(n, ctypes.c_void_p) for n in (
        "q", "k", "v", "o", "lse", "alibi", "bias", "sinks", "cu_seqlens_q", "cu_seqlens_k", "lens_k", "page_table",
        "launch")] + [("workspace_size", ctypes.c_size_t)]


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("cuda_code", ctypes.c_int), ("field", ctypes.c_char * 48),
                ("text", ctypes.c_char * 464)]


CPU, CUDA = 1, 2
F32, F16, BF16 = 1, 2, 3


class Context:
    """A context of the library in `build`, and its calls with failures raised."""

    def __init__(self, build, **options):
        self.lib = ctypes.CDLL(os.path.join(build, "libattest.so"))
        self.lib.att_plan_workspace.restype = ctypes.c_size_t
        self.lib.att_last_error.restype = ctypes.POINTER(Error)
        self.lib.att_version.restype = ctypes.c_char_p
        self.handle = ctypes.c_void_p()
        asked = Options(size=ctypes.sizeof(Options), **options)
        self.check(self.lib.att_context_create(ctypes.byref(self.handle), ctypes.byref(asked)))

    def check(self, status):
        if status:
            raise RuntimeError(self.lib.att_last_error().contents.text.decode())

    def problem(self, batch, heads_q, heads_kv, seq_q, seq_k, d, dtype):
        p = Problem()
        self.lib.att_problem_init_sized(ctypes.byref(p), ctypes.c_size_t(ctypes.sizeof(p)), *(ctypes.c_int64(x) for x in (
            batch, heads_q, heads_kv, seq_q, seq_k, d, d)), dtype)
        return p

    def plan(self, problem):
        plan = ctypes.c_void_p()
        self.check(self.lib.att_plan_create(ctypes.byref(plan), self.handle, ctypes.byref(problem)))
        return plan
