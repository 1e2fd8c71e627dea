/* module.c: loads the code of a row once per device, from any origin. */
#include "cuda/module.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/sha256.h"
#include "cuda/embed.h"
#include "cuda/flags.h"
#include "cuda/function.h"
#include "cuda/jit.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static att_cuda_function *functions; /* under `lock` */

/* Code to be loaded by the driver. */
typedef struct image {
    att_cuda_origin origin;
    const unsigned char *bytes;
    size_t size;
} image;

/* Is the row meant for this GPU: listed in its targets, or is the GPU newer than all that could
 * be listed? Source for 8.x uses nothing that a newer GPU lacks; source for 9.0a only may. */
static bool is_for(const att_cuda_kernel *kernel, int cc) {
    const uint32_t bit = att_cuda_target_bit(cc);
    return bit ? (kernel->targets & bit) != 0 : cc > 80 && kernel->targets & ATT_SM8X;
}

/* Machine code, otherwise PTX; NULL if there is neither. */
static const att_embedded_code *find_embedded(const att_cuda_kernel *kernel, int cc) {
    if (!is_for(kernel, cc))
        return NULL;
    const att_embedded_code *code = att_embedded_code_find(kernel->id, cc);
    return code ? code : att_embedded_code_find(kernel->id, 0);
}

att_cuda_origin att_cuda_origin_of(const att_cuda_kernel *kernel, int cc) {
    const att_embedded_code *code = find_embedded(kernel, cc);
    if (code)
        return code->cc == 0 ? ATT_ORIGIN_PTX : ATT_ORIGIN_EMBEDDED;
    return is_for(kernel, cc) && att_jit_available(NULL) ? ATT_ORIGIN_JIT : ATT_ORIGIN_NONE;
}

static att_status read_code(att_cuda_function *f, const char *id) {
    const int device = att_cuda_device_handle(f->device);
    const struct {
        int attribute;
        int *value;
    } attributes[] = {
        {CU_FUNC_ATTRIBUTE_NUM_REGS, &f->code.registers},
        {CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &f->code.local_bytes},
        {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &f->code.shared_bytes},
        {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &f->code.max_threads},
    };
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++)
        ATT_TRY(ATT_CUDA(f->cu, id, KernelGetAttribute, attributes[i].value,
                         attributes[i].attribute, f->kernel, device));
    int allowed = 0;
    ATT_TRY(ATT_CUDA(f->cu, id, KernelGetAttribute, &allowed,
                     CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f->kernel, device));
    f->shared_allowed = allowed > 0 ? (uint32_t)allowed : 0;
    size_t offset;
    return f->cu->KernelGetParamInfo ? ATT_CUDA(f->cu, id, KernelGetParamInfo, f->kernel, 0,
                                                &offset, &f->params_bytes)
                                     : ATT_OK;
}

/* Otherwise the driver would load the code at its first launch, and a launch must not
 * allocate. */
static att_status load_now(att_cuda_function *f, const char *id) {
    CUfunction function;
    ATT_TRY(ATT_CUDA(f->cu, id, KernelGetFunction, &function, f->kernel));
    return f->cu->FuncLoad ? ATT_CUDA(f->cu, id, FuncLoad, function) : ATT_OK;
}

static att_status find_kernel(att_cuda_function *f, const char *id) {
    ATT_TRY(ATT_CUDA(f->cu, id, LibraryGetKernel, &f->kernel, f->library, id));
    ATT_TRY(load_now(f, id));
    ATT_TRY(read_code(f, id));
    if (f->cu->KernelGetName) {
        ATT_TRY(ATT_CUDA(f->cu, id, KernelGetName, &f->name, f->kernel));
        return ATT_OK;
    }
    /* An older driver does not report names, but it found the kernel by this one; the key holds
     * it. */
    f->name = f->key;
    return ATT_OK;
}

/* *refused: the driver cannot use this kind of image at all; another kind might work. */
static att_status load_image(att_cuda_function *f, const char *id, const image *code,
                             bool *refused) {
    const CUresult result =
        f->cu->LibraryLoadData(&f->library, code->bytes, NULL, NULL, 0, NULL, NULL, 0);
    *refused = result == CUDA_ERROR_INVALID_IMAGE || result == CUDA_ERROR_NO_BINARY_FOR_GPU ||
               result == CUDA_ERROR_INVALID_PTX ||
               result == CUDA_ERROR_JIT_COMPILER_NOT_FOUND ||
               result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    ATT_TRY(att_cuda_check(f->cu, result, "cuLibraryLoadData", id));
    const att_status status = find_kernel(f, id);
    if (status != ATT_OK) {
        f->cu->LibraryUnload(f->library);
        return status;
    }
    f->code.origin = code->origin;
    att_sha256_of(code->bytes, code->size, f->code.sha256);
    return ATT_OK;
}

static att_status compile_and_load(att_cuda_function *f, const att_cuda_kernel *kernel,
                                   const att_cuda_source *source, int cc) {
    ATT_REQUIRE(is_for(kernel, cc), ATT_E_UNSUPPORTED, "device",
                "%s is not for compute capability %d.%d", kernel->id, cc / 10, cc % 10);
    unsigned char *bytes = NULL;
    image code = {.origin = ATT_ORIGIN_JIT};
    ATT_TRY(
        att_jit_compile(&bytes, &code.size, kernel, cc, source->defines, source->cache_dir));
    code.bytes = bytes;
    bool refused;
    const att_status status = load_image(f, kernel->id, &code, &refused);
    att_free(bytes);
    return status;
}

static bool has_text(const char *text) {
    return text && *text;
}

static att_status load_code(att_cuda_function *f, const att_cuda_kernel *kernel,
                            const att_cuda_source *source) {
    const int cc = att_cuda_device_limits(f->device)->cc;
    const att_embedded_code *embedded =
        f->jit_only || has_text(source->defines) ? NULL : find_embedded(kernel, cc);
    if (!embedded)
        return compile_and_load(f, kernel, source, cc);
    const image code = {.origin = embedded->cc == 0 ? ATT_ORIGIN_PTX : ATT_ORIGIN_EMBEDDED,
                        .bytes = embedded->bytes,
                        .size = embedded->size};
    bool refused;
    const att_status status = load_image(f, kernel->id, &code, &refused);
    if (!refused || !att_jit_available(NULL))
        return status;
    /* The driver is older than the compiler of this library: the compiler on this machine may
     * match it. */
    return compile_and_load(f, kernel, source, cc);
}

static att_status load_in_context(att_cuda_function *f, const att_cuda_kernel *kernel,
                                  const att_cuda_source *source) {
    ATT_TRY(att_cuda_device_enter(f->device));
    const att_status status = load_code(f, kernel, source);
    att_cuda_device_leave(f->device);
    return status;
}

/* "id\0source flags defines": the id comes first so that it can be used as a name. */
enum { DEFINES_MAX = 1024 };
typedef struct function_key {
    char text[ATT_CUDA_FLAGS_MAX + DEFINES_MAX + 256];
    size_t size;
} function_key;

static att_status make_key(function_key *key, const att_cuda_kernel *kernel,
                           const char *defines) {
    char flags[ATT_CUDA_FLAGS_MAX];
    att_cuda_flags(flags, kernel);
    key->size = 0;
    const size_t id = strlen(kernel->id) + 1;
    ATT_REQUIRE(id < 128 && strlen(kernel->source) < 64, ATT_E_ARG, "kernel",
                "a kernel's id has at most 127 letters, its source 63");
    ATT_REQUIRE(!defines || strlen(defines) < DEFINES_MAX, ATT_E_ARG, "defines",
                "defines has more than %d letters", DEFINES_MAX - 1);
    memcpy(key->text, kernel->id, id);
    const int rest = snprintf(key->text + id, sizeof key->text - id, "%s %s %s", kernel->source,
                              flags, defines ? defines : "");
    key->size = id + (size_t)rest + 1;
    return ATT_OK;
}

/* `lock` must be held. The function with that key, created if there is none; NULL if out of
 * memory. */
static att_cuda_function *find_or_add(att_cuda_device *device, const function_key *key,
                                      bool jit_only) {
    for (att_cuda_function *f = functions; f; f = f->next)
        if (f->device == device && f->jit_only == jit_only && f->key_size == key->size &&
            memcmp(f->key, key->text, key->size) == 0)
            return f;
    att_cuda_function *f = att_alloc(sizeof *f + key->size);
    if (!f)
        return NULL;
    f->device = device;
    f->jit_only = jit_only;
    f->cu = att_cuda_device_driver(device);
    f->key = (char *)(f + 1);
    f->key_size = key->size;
    memcpy(f->key, key->text, key->size);
    pthread_mutex_init(&f->lock, NULL);
    f->next = functions;
    functions = f;
    return f;
}

/* `lock` must be held. Remove a function that could not be loaded, once nobody waits for it. */
static void remove_unloaded(att_cuda_function *f) {
    att_cuda_function **link = &functions;
    while (*link != f)
        link = &(*link)->next;
    *link = f->next;
    pthread_mutex_destroy(&f->lock);
    att_free(f);
}

att_status att_cuda_function_load(const att_cuda_function **out, att_cuda_device *device,
                                  const att_cuda_kernel *kernel,
                                  const att_cuda_source *source) {
    static const att_cuda_source plain;
    *out = NULL;
    source = source ? source : &plain;
    function_key key;
    ATT_TRY(make_key(&key, kernel, source->defines));

    pthread_mutex_lock(&lock);
    att_cuda_function *f = find_or_add(device, &key, source->jit_only != 0);
    if (f)
        f->users++;
    pthread_mutex_unlock(&lock);
    ATT_REQUIRE(f, ATT_E_MEMORY, "", "no memory for the function of %s", kernel->id);

    pthread_mutex_lock(&f->lock);
    att_status status = ATT_OK;
    if (!f->ready)
        status = load_in_context(f, kernel, source);
    f->ready = status == ATT_OK;
    pthread_mutex_unlock(&f->lock);

    pthread_mutex_lock(&lock);
    f->users--;
    if (status == ATT_OK)
        *out = f;
    else if (f->users == 0)
        remove_unloaded(f);
    pthread_mutex_unlock(&lock);
    return status;
}

const att_cuda_code *att_cuda_function_code(const att_cuda_function *function) {
    return &function->code;
}
