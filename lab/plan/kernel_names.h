/* kernel_names.h: the kernel that a misspelt name may mean. */
#ifndef LAB_KERNEL_NAMES_H
#define LAB_KERNEL_NAMES_H

/* The id nearest to `misspelt` among all kernels of the library, on any device; NULL if none is
 * near, or if it is itself an id, then one of another device. */
const char *lab_nearest_kernel(const char *misspelt);

#endif
