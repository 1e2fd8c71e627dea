/* place.h: the short name of a device, used for its evidence folder. */
#ifndef LAB_PLACE_H
#define LAB_PLACE_H

#include <stddef.h>

#include "attest.h"

/* "h200" for "NVIDIA H200": lower case, without the maker's name, everything but letters and
 * digits replaced with a dash. */
void lab_place_name(const char *device, char *buf, size_t n);

/* A processor's name often says little: its highest instruction set is appended, "xeon-amx". */
void lab_place_cpu(const char *processor, att_isa isa, char *buf, size_t n);

#endif
