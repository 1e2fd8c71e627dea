/* entry.h: stands behind a kernel: what its shared object exports (abi.h). KERNEL is the kernel's name. */

/* Of the sections of static shared memory and of declared alignments, which not every kernel has. */
extern "C" {
extern char __start_vgpu_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_vgpu_shared[] __attribute__((weak, visibility("hidden")));
extern const unsigned __start_vgpu_aligns[] __attribute__((weak, visibility("hidden")));
extern const unsigned __stop_vgpu_aligns[] __attribute__((weak, visibility("hidden")));
}

template <class P> static void vgpu_call(void (*kernel)(P), const void *params) {
    kernel(*(const P *)params);
}

template <class P> static constexpr size_t vgpu_bytes_of_params(void (*)(P)) {
    return sizeof(P);
}

static void vgpu_run(const void *params) {
    vgpu_call(KERNEL, params);
}

#ifdef __SANITIZE_THREAD__
enum { VGPU_WATCHED = 1 };
#else
enum { VGPU_WATCHED = 0 };
#endif

extern "C" __attribute__((visibility("default"))) const vgpu_entry_point vgpu_entry = {
    vgpu_run,           vgpu_bytes_of_params(KERNEL), VGPU_WATCHED,      __start_vgpu_shared,
    __stop_vgpu_shared, __start_vgpu_aligns,          __stop_vgpu_aligns};
