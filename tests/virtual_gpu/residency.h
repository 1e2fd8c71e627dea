/* residency.h: the queued launches, and which of their blocks run at once. */
#ifndef ATT_VGPU_RESIDENCY_H
#define ATT_VGPU_RESIDENCY_H

#include "tests/virtual_gpu/lanes.h"

/* griddepcontrol.launch_dependents and griddepcontrol.wait. */
void grid_allow_next(vgpu_lane *lane);
void grid_wait_previous(vgpu_lane *lane);

/* Clusters that run, in a list. */
vgpu_cluster *launch_resident(void);

/* Start clusters for which there is room. False: none is left or resident. */
bool launch_fill(void);

/* The kernel's name and the launch number of the running lane; without one, of the oldest
 * launch. */
void launch_describe(char *name, size_t bytes, long *number);

#endif
