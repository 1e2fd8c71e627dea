/* signature.h: files signed and checked with SSH keys, by ssh-keygen -Y; the signature lies beside the file, as FILE.sig. */
#ifndef LAB_SIGNATURE_H
#define LAB_SIGNATURE_H

#include <stdbool.h>
#include <stddef.h>

#include "lab/base/message.h"

/* What a signature is for: one made for something else does not hold here. */
#define LAB_SIGNATURE_NAMESPACE "attest"

typedef enum lab_signature {
    LAB_SIGNATURE_HOLDS,
    LAB_SIGNATURE_BROKEN, /* of other bytes, of a key that is not allowed, or no signature */
    LAB_SIGNATURE_UNKNOWN /* ssh-keygen is not here */
} lab_signature;

/* Sign `path` with the private key, or the public one whose private half an agent holds. An older signature is replaced.
 * `missing`: there is no ssh-keygen. */
bool lab_sign_file(const char *path, const char *key, bool *missing, lab_message *why);

/* Is there a file of allowed signers, with a signer in it? */
bool lab_signers_there(const char *signers, lab_message *why);

/* Check the signature of `path` against a file of allowed signers (ssh-keygen(1)); `who`, of n bytes, becomes the signer. */
lab_signature lab_check_signature(const char *path, const char *signers, char *who, size_t n,
                                  lab_message *why);

#endif
