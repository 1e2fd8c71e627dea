/* signature.c: signs and checks by running ssh-keygen. */
#include "lab/evidence/signature.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lab/base/spawn.h"

static const char tool[] = "ssh-keygen";

/* The first line of the tool's error message. */
static const char *first_line(char *text) {
    if (!text || !*text)
        return "no reason given";
    text[strcspn(text, "\r\n")] = '\0';
    return text;
}

static bool name_signature(char *buf, size_t n, const char *path, lab_message *why) {
    const int length = snprintf(buf, n, "%s.sig", path);
    return (length >= 0 && (size_t)length < n) ||
           lab_fail(why, "%s: the name is too long", path);
}

bool lab_sign_file(const char *path, const char *key, bool *missing, lab_message *why) {
    char signature[4096];
    const char *const command[] = {
        tool, "-Y", "sign", "-q", "-f", key, "-n", LAB_SIGNATURE_NAMESPACE, path, NULL};
    lab_child child;
    *missing = false;
    if (!name_signature(signature, sizeof signature, path, why))
        return false;
    if (unlink(signature) != 0 && errno != ENOENT)
        return lab_fail(why, "%s: %s", signature, strerror(errno));
    if (!lab_spawn(&child, command, NULL, missing, why))
        return false;
    const bool ok = child.status == 0;
    if (!ok)
        lab_fail(why, "%s: cannot be signed with %s: %s", path, key, first_line(child.error));
    lab_child_free(&child);
    return ok;
}

bool lab_signers_there(const char *signers, lab_message *why) {
    char line[4096];
    FILE *file = fopen(signers, "r");
    if (!file)
        return lab_fail(why, "%s: %s", signers, strerror(errno));
    bool found = false;
    while (!found && fgets(line, sizeof line, file)) {
        const char *text = line + strspn(line, " \t\r\n");
        found = *text && *text != '#';
    }
    fclose(file);
    return found || lab_fail(why, "%s: has no signers", signers);
}

/* The signer whose key made the signature; the first if a key has several names. */
static lab_signature find_signer(const char *path, const char *signature, const char *signers,
                                 char *who, size_t n, lab_message *why) {
    const char *const command[] = {tool,      "-Y", "find-principals", "-s",
                                   signature, "-f", signers,           NULL};
    lab_child child;
    bool missing;
    if (!lab_spawn(&child, command, NULL, &missing, why))
        return missing ? LAB_SIGNATURE_UNKNOWN : LAB_SIGNATURE_BROKEN;
    const bool ok = child.status == 0 && child.out && *child.out;
    if (ok)
        snprintf(who, n, "%.*s", (int)strcspn(child.out, ",\r\n"), child.out);
    else
        lab_fail(why, "%s: its signature is not by a signer of %s: %s", path, signers,
                 first_line(child.error));
    lab_child_free(&child);
    return ok ? LAB_SIGNATURE_HOLDS : LAB_SIGNATURE_BROKEN;
}

lab_signature lab_check_signature(const char *path, const char *signers, char *who, size_t n,
                                  lab_message *why) {
    char signature[4096];
    who[0] = '\0';
    if (!name_signature(signature, sizeof signature, path, why))
        return LAB_SIGNATURE_BROKEN;
    if (access(signature, F_OK) != 0) {
        lab_fail(why, "%s: is not signed: %s is missing", path, signature);
        return LAB_SIGNATURE_BROKEN;
    }
    const lab_signature found = find_signer(path, signature, signers, who, n, why);
    if (found != LAB_SIGNATURE_HOLDS)
        return found;
    const char *const command[] = {
        tool, "-Y",      "verify", "-f", signers, "-I", who, "-n", LAB_SIGNATURE_NAMESPACE,
        "-s", signature, NULL};
    lab_child child;
    bool missing;
    if (!lab_spawn(&child, command, path, &missing, why))
        return missing ? LAB_SIGNATURE_UNKNOWN : LAB_SIGNATURE_BROKEN;
    const bool ok = child.status == 0;
    if (!ok)
        lab_fail(why, "%s: its signature by %s is not valid: %s", path, who,
                 first_line(child.error));
    lab_child_free(&child);
    return ok ? LAB_SIGNATURE_HOLDS : LAB_SIGNATURE_BROKEN;
}
