/* context_parallel_nccl.c: ring attention on the GPUs of a machine over NCCL: one process, rank
 * and GPU each.
 *
 *     ./context_parallel_nccl [RANKS [ROWS]]     as many ranks as GPUs; ROWS per piece; a rank
 *                                                has two pieces
 *
 * Messages travel on their own stream. Streams wait for each other through events; the host
 * waits for nothing until a rank is done. Every rank computes its rows twice, which must
 * give the same bits; the rows of all ranks are compared with one call on the first GPU. */
#include "ring.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const double BAR = 4e-3; /* bfloat16: two ulp of a number below 1 */

/* Shared between the processes. */
typedef struct common {
    ncclUniqueId id;
    sem_t is_known; /* the id */
    float o[];      /* of every rank */
} common;

static bool is_done(cudaError_t error, const char *call) {
    if (error != cudaSuccess)
        fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(error));
    return error == cudaSuccess;
}

static bool is_sent(ncclResult_t result, const char *call) {
    if (result != ncclSuccess)
        fprintf(stderr, "%s: %s\n", call, ncclGetErrorString(result));
    return result == ncclSuccess;
}

/* ---------------------------------------------------------------------------------- memory */

static void *allocate(size_t bytes) {
    void *memory;
    return is_done(cudaMalloc(&memory, bytes), "cudaMalloc") ? memory : NULL;
}

static void release(void *memory) {
    cudaFree(memory);
}

static bool to_device(void *to, const void *from, size_t bytes) {
    return is_done(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
}

static bool to_host(void *to, const void *from, size_t bytes) {
    return is_done(cudaDeviceSynchronize(), "cudaDeviceSynchronize") &&
           is_done(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
}

/* -------------------------------------------------------------------------------- messages */

typedef struct neighbours {
    int next, previous;
    ncclComm_t group;
    cudaStream_t computing, sending;
    cudaEvent_t is_computed, is_here;
} neighbours;

/* The computing stream must have made or received what is sent, and must have read the buffer
 * that is received into. */
static bool start(void *self, const void *send, void *receive, size_t bytes) {
    neighbours *n = self;
    return is_done(cudaEventRecord(n->is_computed, n->computing), "cudaEventRecord") &&
           is_done(cudaStreamWaitEvent(n->sending, n->is_computed, 0), "cudaStreamWaitEvent") &&
           is_sent(ncclGroupStart(), "ncclGroupStart") &&
           is_sent(ncclSend(send, bytes, ncclInt8, n->next, n->group, n->sending),
                   "ncclSend") &&
           is_sent(ncclRecv(receive, bytes, ncclInt8, n->previous, n->group, n->sending),
                   "ncclRecv") &&
           is_sent(ncclGroupEnd(), "ncclGroupEnd") &&
           is_done(cudaEventRecord(n->is_here, n->sending), "cudaEventRecord");
}

static bool finish(void *self) {
    neighbours *n = self;
    return is_done(cudaStreamWaitEvent(n->computing, n->is_here, 0), "cudaStreamWaitEvent");
}

static bool join(neighbours *n, common *shared, int rank, int ranks) {
    if (rank == 0) {
        if (!is_sent(ncclGetUniqueId(&shared->id), "ncclGetUniqueId"))
            return false;
        for (int i = 1; i < ranks; i++)
            sem_post(&shared->is_known);
    } else {
        sem_wait(&shared->is_known);
    }
    n->next = (rank + 1) % ranks;
    n->previous = (rank + ranks - 1) % ranks;
    return is_sent(ncclCommInitRank(&n->group, ranks, shared->id, rank), "ncclCommInitRank") &&
           is_done(cudaStreamCreate(&n->computing), "cudaStreamCreate") &&
           is_done(cudaStreamCreate(&n->sending), "cudaStreamCreate") &&
           is_done(cudaEventCreateWithFlags(&n->is_computed, cudaEventDisableTiming),
                   "cudaEventCreate") &&
           is_done(cudaEventCreateWithFlags(&n->is_here, cudaEventDisableTiming),
                   "cudaEventCreate");
}

/* ----------------------------------------------------------------------------- processes */

static bool open_device(ring_device *device, int index) {
    const att_context_options options = {
        .size = sizeof options, .device = ATT_DEVICE_CUDA, .device_index = index};
    *device = (ring_device){
        .allocate = allocate, .release = release, .to_device = to_device, .to_host = to_host};
    if (!is_done(cudaSetDevice(index), "cudaSetDevice"))
        return false;
    return att_context_create(&device->context, &options) == ATT_OK ||
           ring_failed("att_context_create");
}

static int be_rank(common *shared, const ring_shape *shape, int rank) {
    const size_t count = ring_o_count(shape);
    float *o = shared->o + (size_t)rank * count, *again = malloc(count * sizeof *again);
    ring_device device;
    neighbours own;
    const ring_exchange exchange = {&own, start, finish};
    if (!again || !open_device(&device, rank) || !join(&own, shared, rank, shape->ranks))
        return 1;
    device.stream = own.computing;
    if (!ring_attention(&device, &exchange, shape, rank, o) ||
        !ring_attention(&device, &exchange, shape, rank, again))
        return 1;
    if (memcmp(o, again, count * sizeof *o) != 0) {
        fprintf(stderr, "rank %d: other bits the second time: WRONG\n", rank);
        return 1;
    }
    return 0;
}

static int judge(common *shared, const ring_shape *shape) {
    ring_device device;
    const double worst =
        open_device(&device, 0) ? ring_difference(&device, shape, shared->o) : -1;
    const bool holds = worst >= 0 && worst <= BAR;
    printf("%d GPUs of %lld rows, twice the same bits, largest difference from one call %.1e, "
           "the bar is %g: %s\n",
           shape->ranks, (long long)(2 * shape->piece), worst, BAR, holds ? "holds" : "WRONG");
    return !holds;
}

/* CUDA may be used in this process or in its children, not in both: only the children use
 * it. */
static int count_gpus(void) {
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
        int count = 0;
        _exit(cudaGetDeviceCount(&count) == cudaSuccess ? count : 0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status)
               ? WEXITSTATUS(status)
               : 0;
}

/* Start a child process for this rank, or, for -1, the one that judges. */
static bool start_process(common *shared, const ring_shape *shape, int rank) {
    const pid_t child = fork();
    if (child == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        exit(1);
    if (child == 0)
        exit(rank < 0 ? judge(shared, shape) : be_rank(shared, shape, rank));
    return child > 0;
}

/* False at the first that fails: the others, which may wait for it, end with this process. */
static bool wait_for(int processes) {
    for (int status; processes > 0; processes--)
        if (wait(&status) < 0 || status != 0)
            return false;
    return true;
}

int main(int argc, char **argv) {
    const int gpus = count_gpus(), ranks = argc > 1 ? atoi(argv[1]) : gpus;
    const ring_shape shape = {.ranks = ranks,
                              .heads_q = 32,
                              .heads_kv = 8,
                              .d = 128,
                              .piece = argc > 2 ? atol(argv[2]) : 1000,
                              .dtype = ATT_BF16};
    if (ranks < 1 || ranks > gpus || shape.piece < 1) {
        fprintf(stderr, "usage: context_parallel_nccl [RANKS [ROWS]]; there are %d GPUs\n",
                gpus);
        return 2;
    }
    const size_t bytes = sizeof(common) + (size_t)ranks * ring_o_count(&shape) * sizeof(float);
    common *shared =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || sem_init(&shared->is_known, 1, 0) != 0) {
        perror("context_parallel_nccl");
        return 1;
    }
    int started = 0;
    while (started < ranks && start_process(shared, &shape, started))
        started++;
    return started == ranks && wait_for(ranks) && start_process(shared, &shape, -1) &&
                   wait_for(1)
               ? 0
               : 1;
}
