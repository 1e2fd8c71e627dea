/* station_probe.h: calls with changed inputs before each, compared with samples of many calls
 * on the same inputs.
 *
 * A subject that finds its answer finished in the outputs, remembers it, or notices that calls
 * come quickly one after the other need not compute in most calls of such a sample. A probe
 * makes the same calls, but before each of them its inputs are turned and its outputs marked
 * (lab/measure/station_turn.h). It ends after an unpredictable number of calls, and the results
 * of the last calls are judged. Its time per call must agree with that of the samples. Probes
 * are taken between the samples, in random rounds. */
#ifndef LAB_STATION_PROBE_H
#define LAB_STATION_PROBE_H

#include "lab/measure/station.h"

/* Whether this round has a probe. Never if no two calls of a sample share their inputs. */
bool lab_probe_is_due(const lab_station *station, size_t round);

/* Take one probe. A wrong result makes the case fail. */
void lab_probe_take(lab_station *station);

/* When the samples are summarised: fail the case if its probes took longer. Takes more probes
 * before it decides that. */
void lab_probe_judge(lab_station *station);

#endif
