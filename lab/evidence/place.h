/* place.h: the short name of a device, under which its evidence is kept. */
#ifndef LAB_PLACE_H
#define LAB_PLACE_H

#include <stddef.h>

#include "attest.h"

/* "h200" for "NVIDIA H200": lower case, the maker's name left out, everything but letters and digits a dash. */
void lab_place_name(const char *device, char *buf, size_t n);

/* A processor's name often says little: its highest instruction set is put behind it, "xeon-amx". */
void lab_place_cpu(const char *processor, att_isa isa, char *buf, size_t n);

#endif
