/* fiber.h: separate stacks for functions that are suspended and resumed. */
#ifndef ATT_VGPU_FIBER_H
#define ATT_VGPU_FIBER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct vgpu_fiber {
    void *stack_pointer;
    char *stack; /* its lowest address */
    size_t stack_bytes;
    void *fake_stack; /* AddressSanitizer's */
} vgpu_fiber;

/* A fiber that will run `function`, which never returns: it ends with fiber_end().
 * fiber_release() returns stacks for reuse. */
void fiber_prepare(vgpu_fiber *fiber, void (*function)(void));
void fiber_release(vgpu_fiber *fiber);

/* From the scheduler: resume the fiber until it leaves. */
void fiber_resume(vgpu_fiber *fiber);

/* From the fiber: back to the scheduler. */
void fiber_leave(vgpu_fiber *fiber);
_Noreturn void fiber_end(vgpu_fiber *fiber);

#endif
