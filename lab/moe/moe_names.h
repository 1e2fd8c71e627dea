/* moe_names.h: the names in words of mixtures of experts. */
#ifndef LAB_MOE_NAMES_H
#define LAB_MOE_NAMES_H

#include "lab/problem/spec_names.h"

extern const lab_name lab_moe_activation_names[], lab_moe_routing_names[], lab_moe_gate_names[],
    lab_moe_data_names[], lab_moe_load_names[];

#endif
