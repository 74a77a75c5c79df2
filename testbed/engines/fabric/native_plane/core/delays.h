/* How late packets were written and frames read, counted. */

#ifndef TESTBED_DELAYS_H
#define TESTBED_DELAYS_H

#include "core.h"
#include "forwarder.h"

/* Packets written at once, by how much too late, and the latency of their path. */
void delays_written(struct core_delays *delays, double late_s, double latency_s, int64_t packets);

/* The fabric did not run, for so long after it was to. */
void delays_overslept(struct core_delays *delays, double seconds);

/* A frame that is carried. */
void delays_read(struct core_delays *delays, struct wait wait);

#endif
