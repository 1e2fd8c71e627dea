/* kernel_names.h: the kernel that a misspelt name may mean. */
#ifndef LAB_KERNEL_NAMES_H
#define LAB_KERNEL_NAMES_H

/* The id nearest to `misspelt` among the kernels of the library, for whatever device; NULL where none is near, or where it is an
 * id, of another device then. */
const char *lab_nearest_kernel(const char *misspelt);

#endif
