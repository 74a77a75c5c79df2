/* Packets as nodes see them, in pcap form, into a file that Python has opened. */

#ifndef TESTBED_CAPTURE_H
#define TESTBED_CAPTURE_H

#include "core.h"

#include <stddef.h>
#include <stdint.h>

struct capture;

struct capture *capture_begin(int descriptor, int64_t most_bytes);

/* A packet that the node sends or receives now, in two parts. A full disk ends the capture, and nothing else. */
void capture_add(struct capture *capture, const uint8_t *head, size_t head_bytes, const uint8_t *tail,
                 size_t tail_bytes);

/* What was added so far is in the file. */
void capture_flush(struct capture *capture);

/* The file is complete, and stays open; gives 0, CORE_CAPTURE_FULL, or the error for which it lacks packets. */
int64_t capture_end(struct capture *capture);

#endif
