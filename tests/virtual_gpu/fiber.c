/* fiber.c: separate stacks for functions that are suspended and resumed (x86-64). */
#include "tests/virtual_gpu/fiber.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
enum { ASAN = 1 };
#else
enum { ASAN = 0 };
#endif

#if !defined(__x86_64__)
#error "fibers are switched by code for x86-64 alone"
#endif

/* A kernel's lane needs a few KB; the sanitizer's frames are larger. */
enum { PAGE = 4096, STACK_BYTES = ASAN ? 1 << 20 : 1 << 17, SAVED_REGISTERS = 6 };

/* Save the callee-saved registers, switch to another stack, and restore them there. */
void fiber_switch(void **save, void *load);
__asm__(".text\n"
        ".globl fiber_switch\n"
        ".hidden fiber_switch\n"
        ".type fiber_switch, @function\n"
        "fiber_switch:\n"
        "push %rbp\n"
        "push %rbx\n"
        "push %r12\n"
        "push %r13\n"
        "push %r14\n"
        "push %r15\n"
        "mov %rsp, (%rdi)\n"
        "mov %rsi, %rsp\n"
        "pop %r15\n"
        "pop %r14\n"
        "pop %r13\n"
        "pop %r12\n"
        "pop %rbx\n"
        "pop %rbp\n"
        "ret\n"
        ".size fiber_switch, .-fiber_switch\n");

static void *scheduler; /* its stack pointer, while a fiber runs */

/* Unused stacks, each with the address of the next at its lowest usable place. */
static char *spare;

static char *take_stack(void) {
    char *stack = spare;
    if (stack) {
        memcpy(&spare, stack + PAGE, sizeof spare);
        return stack;
    }
    stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED || mprotect(stack, PAGE, PROT_NONE) != 0) {
        perror("virtual GPU: a stack");
        abort();
    }
    return stack;
}

#if defined(__SANITIZE_ADDRESS__)
static void *scheduler_fake;
static const void *scheduler_bottom;
static size_t scheduler_bytes;

static void forget_frames(const vgpu_fiber *fiber) {
    __asan_unpoison_memory_region(fiber->stack + PAGE, STACK_BYTES - PAGE);
}

static void (*first_function)(void);

/* A fiber begins here: tell the sanitizer. */
static void begin(void) {
    __sanitizer_finish_switch_fiber(NULL, &scheduler_bottom, &scheduler_bytes);
    first_function();
}
#endif

void fiber_prepare(vgpu_fiber *fiber, void (*function)(void)) {
    fiber->stack = take_stack();
    fiber->stack_bytes = STACK_BYTES;
    fiber->fake_stack = NULL;
#if defined(__SANITIZE_ADDRESS__)
    forget_frames(fiber);
    first_function = function;
    function = begin;
#endif
    /* As fiber_switch() would have left it: the registers, the return address, and a frame that
     * nothing returns to. */
    uintptr_t *top = (uintptr_t *)(void *)(fiber->stack + STACK_BYTES);
    *--top = 0;
    *--top = (uintptr_t)function;
    for (int i = 0; i < SAVED_REGISTERS; i++)
        *--top = 0;
    fiber->stack_pointer = top;
}

void fiber_release(vgpu_fiber *fiber) {
    if (!fiber->stack)
        return;
#if defined(__SANITIZE_ADDRESS__)
    forget_frames(fiber);
#endif
    memcpy(fiber->stack + PAGE, &spare, sizeof spare);
    spare = fiber->stack;
    fiber->stack = NULL;
}

void fiber_resume(vgpu_fiber *fiber) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&scheduler_fake, fiber->stack, fiber->stack_bytes);
#endif
    fiber_switch(&scheduler, fiber->stack_pointer);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(scheduler_fake, NULL, NULL);
#endif
}

void fiber_leave(vgpu_fiber *fiber) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&fiber->fake_stack, scheduler_bottom, scheduler_bytes);
#endif
    fiber_switch(&fiber->stack_pointer, scheduler);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fiber->fake_stack, &scheduler_bottom, &scheduler_bytes);
#endif
}

_Noreturn void fiber_end(vgpu_fiber *fiber) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(NULL, scheduler_bottom, scheduler_bytes);
#endif
    fiber_switch(&fiber->stack_pointer, scheduler);
    abort(); /* a fiber that has ended is never resumed */
}
