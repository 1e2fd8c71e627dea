/* station_fair.h: whether the time of a case is that of its work, no less and no more.
 *
 * Less: an answer that is remembered, or found finished in the outputs, costs nothing. Pairs of
 * single calls show this: one on inputs that were changed a little and on poisoned outputs, one
 * after the same steps on inputs and outputs that the subject has seen. The first must not be
 * slower. Others have one call on inputs that are all new, and one after the same inputs were
 * written again: an answer that is updated from the last one takes longer for the first. More: a rival with a handicap. Its run() must not be slower than its own direct call,
 * if it has one, nor make more copies and fills on a GPU than it declares. */
#ifndef LAB_STATION_FAIR_H
#define LAB_STATION_FAIR_H

#include "lab/measure/station.h"

/* Examine a case after its samples are taken; a finding makes it fail. */
void lab_fair_examine(lab_station *station);

#endif
