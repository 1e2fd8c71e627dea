/* npy.c: maps .npy files for reading, and writes them to a temporary file that is renamed when
 * done. */
#include "lab/problem/npy.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "lab/problem/npy_header.h"

static bool system_failed(lab_message *why, const char *path, const char *what, int code) {
    return lab_fail(why, "%s: %s: %s", path, what, strerror(code));
}

bool lab_npy_open(lab_npy *out, const char *path, lab_message *why) {
    memset(out, 0, sizeof *out);
    /* O_NONBLOCK: a FIFO without a writer must be refused below, not block here. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return system_failed(why, path, "cannot open", errno);
    bool ok = true;
    struct stat info;
    if (fstat(fd, &info) != 0)
        ok = system_failed(why, path, "cannot stat", errno);
    else if (!S_ISREG(info.st_mode))
        ok = lab_fail(why, "%s: not a regular file", path);
    else if (info.st_size == 0)
        ok = lab_fail(why, "%s: not a .npy file (empty)", path);
    if (ok) {
        out->mapping_bytes = (size_t)info.st_size;
        out->mapping = mmap(NULL, out->mapping_bytes, PROT_READ, MAP_SHARED, fd, 0);
        if (out->mapping == MAP_FAILED) {
            out->mapping = NULL;
            ok = system_failed(why, path, "cannot map", errno);
        }
    }
    close(fd);
    size_t offset = 0;
    if (ok)
        ok = lab_npy_header_parse(out, &offset, out->mapping, out->mapping_bytes, path, why);
    if (!ok) {
        lab_npy_close(out);
        return ok;
    }
    out->data = (const char *)out->mapping + offset;
    return true;
}

void lab_npy_close(lab_npy *array) {
    if (array->mapping)
        munmap(array->mapping, array->mapping_bytes);
    memset(array, 0, sizeof *array);
}

static bool map_for_writing(lab_npy_writer *writer, const char *path, lab_message *why) {
    const int code = posix_fallocate(writer->file.fd, 0, (off_t)writer->mapping_bytes);
    if (code != 0)
        return system_failed(why, path, "cannot reserve the disk space", code);
    void *mapping = mmap(NULL, writer->mapping_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                         writer->file.fd, 0);
    if (mapping == MAP_FAILED)
        return system_failed(why, path, "cannot map", errno);
    writer->mapping = mapping;
    return true;
}

bool lab_npy_create(lab_npy_writer *out, const char *path, lab_npy_type type, int dims,
                    const int64_t *shape, lab_message *why) {
    memset(out, 0, sizeof *out);
    int64_t count, bytes;
    if (!lab_npy_shape_bytes(type, dims, shape, &count, &bytes, path, why))
        return false;
    char header[512];
    const size_t header_bytes = lab_npy_header_format(header, type, dims, shape);
    int64_t total;
    if (!att_add(bytes, (int64_t)header_bytes, &total))
        return lab_fail(why, "%s: the file's size does not fit 63 bits", path);
    out->mapping_bytes = (size_t)total;
    if (!lab_atomic_create(&out->file, path, why) || !map_for_writing(out, path, why)) {
        lab_npy_discard(out);
        return false;
    }
    memcpy(out->mapping, header, header_bytes);
    out->data = (char *)out->mapping + header_bytes;
    return true;
}

bool lab_npy_commit(lab_npy_writer *writer, lab_message *why) {
    bool ok = true;
    if (msync(writer->mapping, writer->mapping_bytes, MS_SYNC) != 0)
        ok = system_failed(why, writer->file.path, "cannot write", errno);
    ok = ok && lab_atomic_commit(&writer->file, why);
    lab_npy_discard(writer);
    return ok;
}

void lab_npy_discard(lab_npy_writer *writer) {
    if (writer->mapping)
        munmap(writer->mapping, writer->mapping_bytes);
    lab_atomic_discard(&writer->file);
    memset(writer, 0, sizeof *writer);
}
