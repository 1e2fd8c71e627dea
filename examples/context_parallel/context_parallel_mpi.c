/* context_parallel_mpi.c: ring attention on the CPU over MPI, one rank per process.
 *
 *     mpirun -n 4 ./context_parallel_mpi [ROWS]     rows per piece; a rank has two pieces
 *
 * Every rank computes its rows twice, which must give the same bits; rank 0 compares the
 * rows of all ranks with one call. */
#include "ring.h"

#include <mpi.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double BAR = 1e-5;

static void *allocate(size_t bytes) {
    const size_t lines = (bytes + ATT_WORKSPACE_ALIGN - 1) / ATT_WORKSPACE_ALIGN;
    return aligned_alloc(ATT_WORKSPACE_ALIGN, lines * ATT_WORKSPACE_ALIGN);
}

static bool copy(void *to, const void *from, size_t bytes) {
    memcpy(to, from, bytes);
    return true;
}

typedef struct neighbours {
    int next, previous;
    MPI_Request requests[2];
} neighbours;

static bool start(void *self, const void *send, void *receive, size_t bytes) {
    neighbours *n = self;
    if (bytes > INT_MAX) {
        fprintf(stderr, "a message of %zu bytes is more than MPI counts\n", bytes);
        return false;
    }
    return MPI_Irecv(receive, (int)bytes, MPI_BYTE, n->previous, 0, MPI_COMM_WORLD,
                     &n->requests[0]) == MPI_SUCCESS &&
           MPI_Isend(send, (int)bytes, MPI_BYTE, n->next, 0, MPI_COMM_WORLD, &n->requests[1]) ==
               MPI_SUCCESS;
}

static bool finish(void *self) {
    neighbours *n = self;
    return MPI_Waitall(2, n->requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS;
}

/* The results of all ranks, gathered and judged on rank 0. Every rank returns the same. */
static int judge(const ring_device *device, const ring_shape *shape, int rank, const float *o,
                 const float *again) {
    const size_t count = ring_o_count(shape);
    int is_same = memcmp(o, again, count * sizeof *o) == 0, status = 1;
    float *all = rank == 0 ? malloc((size_t)shape->ranks * count * sizeof *all) : NULL;
    MPI_Allreduce(MPI_IN_PLACE, &is_same, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Gather(o, (int)count, MPI_FLOAT, all, (int)count, MPI_FLOAT, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        const double worst = all ? ring_difference(device, shape, all) : -1;
        status = !is_same || worst < 0 || worst > BAR;
        printf("%d ranks of %lld rows, %s the same bits, largest difference from one call "
               "%.1e, the bar is %g: %s\n",
               shape->ranks, (long long)(2 * shape->piece), is_same ? "twice" : "not", worst,
               BAR, status ? "WRONG" : "holds");
        free(all);
    }
    MPI_Bcast(&status, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return status;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks, status = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const ring_shape shape = {.ranks = ranks,
                              .heads_q = 8,
                              .heads_kv = 2,
                              .d = 64,
                              .piece = argc > 1 ? atol(argv[1]) : 100,
                              .dtype = ATT_F32};
    const att_context_options options = {
        .size = sizeof options, .device = ATT_DEVICE_CPU, .threads = 1};
    ring_device device = {
        .allocate = allocate, .release = free, .to_device = copy, .to_host = copy};
    neighbours own = {.next = (rank + 1) % ranks, .previous = (rank + ranks - 1) % ranks};
    const ring_exchange exchange = {&own, start, finish};
    const size_t count = shape.piece > 0 ? ring_o_count(&shape) : 0;
    float *o = malloc(count * sizeof *o), *again = malloc(count * sizeof *again);
    if (!count || !o || !again)
        fprintf(stderr, "usage: context_parallel_mpi [ROWS], and memory for them\n");
    else if (att_context_create(&device.context, &options) != ATT_OK)
        ring_failed("att_context_create");
    else if (ring_attention(&device, &exchange, &shape, rank, o) &&
             ring_attention(&device, &exchange, &shape, rank, again))
        status = judge(&device, &shape, rank, o, again);
    else
        MPI_Abort(MPI_COMM_WORLD, 1);
    att_context_destroy(device.context);
    free(o);
    free(again);
    MPI_Finalize();
    return status;
}
