/* What comes out of a TUN device: a virtio-net header and one IPv4 packet, or several TCP segments as one.
 *
 * The sender's virtio-net header is read and never passed on: what is written has one of our own making.
 */

#ifndef TESTBED_FRAMES_H
#define TESTBED_FRAMES_H

#include <stdint.h>

enum {
    VNET_BYTES = 10,
    LARGEST_FRAME = VNET_BYTES + 65535,
    MOST_PIECES = 65535 / 44, /* see SMALLEST_SEGMENT */
    MOST_HEADERS = 60 + 60
};

/* Why a frame is not carried; `core.h` has the same order. */
enum unfit {
    UNFIT_MALFORMED,
    UNFIT_IPV6,
    UNFIT_FOREIGN_SOURCE,
    UNFIT_MULTICAST,
    UNFIT_UNKNOWN_DESTINATION,
    UNFIT_OVERSIZE,
    UNFIT_OFFLOAD,
    UNFIT_BACKLOG,
    UNFIT_CAUSES,
    FIT = UNFIT_CAUSES
};

/* A packet, or a super-segment that stands for several. */
struct frame {
    uint32_t dest; /* the address, as it stands in the packet */
    uint32_t pieces;
    uint32_t size, last_size;           /* of the IP packets that it stands for: all but the last one, and that */
    uint32_t payload_at, segment_bytes; /* of a super-segment; 0 for a single packet */
    uint8_t header[VNET_BYTES];         /* to write it with */
};

/* Reads a frame that a node with this address has written. */
enum unfit frame_read(struct frame *frame, const uint8_t *data, uint32_t bytes, uint32_t source, uint32_t mtu);

/* Whether an address is that of many: multicast or broadcast. */
int is_group(uint32_t address);

/* Headers of a part of a super-segment. */
struct part {
    uint8_t head[VNET_BYTES + MOST_HEADERS];
    uint32_t head_bytes;
    uint32_t from, to; /* where its payload is in the frame */
};

/* The segments from `first` to before `last` of a super-segment, as a frame of their own. */
void frame_part(struct part *part, const uint8_t *data, uint32_t bytes, uint32_t payload_at, uint32_t segment_bytes,
                uint32_t first, uint32_t last);

#endif
