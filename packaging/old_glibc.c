/* old_glibc.c: functions that glibc 2.17 lacks, as system calls.
 *
 * A wheel is linked from the objects of the ordinary build, which were compiled with the headers of the C library here, against
 * the symbols of glibc 2.17. What that library lacks must come from this file: the link of the program fails otherwise. */
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if !defined __x86_64__ && !defined __aarch64__
#error "struct stat is the kernel's own on x86-64 and aarch64; elsewhere it may not be"
#endif

int stat(const char *path, struct stat *result) {
    return (int)syscall(SYS_newfstatat, AT_FDCWD, path, result, 0);
}

int fstat(int file, struct stat *result) {
    return (int)syscall(SYS_fstat, file, result);
}

int fstatat(int folder, const char *path, struct stat *result, int flags) {
    return (int)syscall(SYS_newfstatat, folder, path, result, flags);
}

pid_t gettid(void) {
    return (pid_t)syscall(SYS_gettid);
}

ssize_t getrandom(void *bytes, size_t count, unsigned flags) {
    return syscall(SYS_getrandom, bytes, count, flags);
}

/* The empty statement reads the memory, so that the compiler keeps the zeros. */
void explicit_bzero(void *bytes, size_t count) {
    memset(bytes, 0, count);
    __asm__ volatile("" : : "r"(bytes) : "memory");
}
