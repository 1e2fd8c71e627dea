/* host_tests.h: a statement that the tests of the host code passed on a GPU, and for which
 * code.
 *
 * The code that plans and launches kernels is in no kernel's digest; tests/gpu/gpu_tests.sh
 * tests it on a GPU. Its results become evidence/DEVICE/host.json: an in-toto Statement whose
 * subjects are the host code, "host.source", and the tests, "gpu_tests.source". */
#ifndef LAB_HOST_TESTS_H
#define LAB_HOST_TESTS_H

#include <jansson.h>
#include <stdbool.h>

#include "attest.h"
#include "lab/base/message.h"

#define LAB_HOST_PREDICATE "urn:attest:host-tests:v1"

/* The statement about the file `results` that gpu_tests.sh wrote, by this program, on the GPU
 * of `ctx`. NULL, with the reason, if it is from another program or other tests, if something
 * failed, or if a part is missing. */
json_t *lab_host_tests_make(const char *results, const att_context *ctx, lab_message *why);

typedef enum lab_host_standing {
    LAB_HOST_CURRENT, /* the tests of this tree, passed by its host code */
    LAB_HOST_STALE,   /* of other host code or other tests */
    LAB_HOST_BROKEN   /* inconsistent */
} lab_host_standing;

/* Judge the statement of the folder `place`; `why` names the file and the field at fault, or is
 * "". */
lab_host_standing lab_host_tests_judge(const char *path, const char *place, lab_message *why);

#endif
