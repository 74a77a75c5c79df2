/* What becomes of the packets in a queue when its link changes. */

#ifndef TESTBED_RETIME_H
#define TESTBED_RETIME_H

#include "model.h"

/* A link that has changed, and what it was before. */
struct rewired {
    struct link *link;
    struct core_wire old;
};

/* Whether the packets in its queue leave or arrive at other times, or not at all. */
bool concerns_queue(const struct rewired *rewired);

/* All trains go on as they do after these changes, which are in order of the links; what is dropped is counted. What
 * is past a queue travels on as it was. */
void retime(struct model *model, double now_s, const struct rewired *rewired, size_t count);

#endif
