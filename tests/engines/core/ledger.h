/* Keeps the books of a network: which packets went in, and that each of those which come out went in and comes once.
 *
 * It reads frames by code of its own, splits super-segments as a network card does, and compares packet by packet. What
 * is wrong ends the process.
 */

#ifndef TESTBED_TEST_LEDGER_H
#define TESTBED_TEST_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

enum { VNET = 10, MOST_FRAME = VNET + 65535, MOST_FRAMES = 256, MOST_PACKETS = 1490 };

/* What a frame says it is. */
struct facts {
    uint32_t source, dest; /* as they stand in the packet */
    uint32_t ip_bytes, headers, segment_bytes, packets;
    uint32_t size;         /* of the packet, or of all of them as one */
    bool is_partial;       /* its checksum is left to the device */
};

/* Whether these bytes are a frame that may be carried between nodes, and then what it is. */
bool frame_facts(struct facts *facts, const uint8_t *data, uint32_t bytes, uint32_t mtu);

struct entry_in {
    struct facts facts;
    uint8_t *data;
    uint8_t *is_open; /* by packet: it went in and has not come out */
};

struct ledger {
    uint32_t mtu;
    const uint32_t *addresses;
    int nodes;
    struct entry_in entries[MOST_FRAMES];
    int count;
    int64_t came_out, came_out_bytes;
};

/* A frame has gone in; only these of its packets if `numbers` are given. */
void ledger_add(struct ledger *ledger, const uint8_t *data, uint32_t bytes, const uint32_t *numbers, int64_t count);

/* A frame has come out for a node. */
void ledger_check(struct ledger *ledger, int64_t dest, const uint8_t *data, uint32_t bytes, int64_t packets,
                  int64_t size_bytes);

void ledger_free(struct ledger *ledger);

/* Ends the process, and says where. */
_Noreturn void wrong(const char *file, int line, const char *what);

#define EXPECT(what) ((what) ? (void)0 : wrong(__FILE__, __LINE__, #what))

#endif
