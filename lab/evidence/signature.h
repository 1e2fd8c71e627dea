/* signature.h: files signed and checked with SSH keys, by ssh-keygen -Y; the signature is
 * stored beside the file as FILE.sig. */
#ifndef LAB_SIGNATURE_H
#define LAB_SIGNATURE_H

#include <stdbool.h>
#include <stddef.h>

#include "lab/base/message.h"

/* The purpose of a signature: one made for another purpose is not accepted here. */
#define LAB_SIGNATURE_NAMESPACE "attest"

typedef enum lab_signature {
    LAB_SIGNATURE_HOLDS,
    LAB_SIGNATURE_BROKEN, /* for other bytes, from a key that is not allowed, or not a
                           * signature */
    LAB_SIGNATURE_UNKNOWN /* ssh-keygen is not installed */
} lab_signature;

/* Sign `path` with the private key, or with a public key whose private half an agent holds. An
 * older signature is replaced. `missing`: there is no ssh-keygen. */
bool lab_sign_file(const char *path, const char *key, bool *missing, lab_message *why);

/* Whether the file of allowed signers exists and lists a signer. */
bool lab_signers_there(const char *signers, lab_message *why);

/* Check the signature of `path` against a file of allowed signers (ssh-keygen(1)); `who`, of n
 * bytes, receives the signer. */
lab_signature lab_check_signature(const char *path, const char *signers, char *who, size_t n,
                                  lab_message *why);

#endif
