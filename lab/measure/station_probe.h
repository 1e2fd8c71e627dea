/* station_probe.h: calls between which everything changes, against the samples, where a sample has many calls on the same inputs.
 *
 * A subject that finds its answer finished, remembers it, or is called again too soon for its taste need not compute in most calls of such a
 * sample. A probe is made of the same calls, but before each of them its inputs are turned and its outputs marked (lab/measure/station_turn.h).
 * It ends after a number of calls that nobody can foretell, and what the last calls left is judged. Its time of a call must agree with that of the
 * samples. Probes are taken in between the samples, in rounds drawn by chance. */
#ifndef LAB_STATION_PROBE_H
#define LAB_STATION_PROBE_H

#include "lab/measure/station.h"

/* Whether this round has a probe. Never where a sample has no two calls on the same inputs. */
bool lab_probe_is_due(const lab_station *station, size_t round);

/* Take one. What its calls leave that is wrong ends the case as failed. */
void lab_probe_take(lab_station *station);

/* When the samples are summarised: end the case as failed where its probes took longer. Takes more of them before it believes that. */
void lab_probe_judge(lab_station *station);

#endif
