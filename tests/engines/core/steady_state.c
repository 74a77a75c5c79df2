/* Allocations of a forwarder once it is warm, and how long the worst frame and the worst change take.
 *
 * Prints, one line each: frames, calls that wanted memory while they were carried, the microseconds of processor time
 * that one of them took; milliseconds for a frame of the most packets over links that mix them, and the same times as
 * many; and for a change while the most frames are under way. Usage: PROGRAM FRAMES
 */

#include "allocations.h"
#include "ledger.h"
#include "network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NODES = 4, SMALL = 200, LARGE = 3000, SEGMENT = 1448, HEADERS = 40, WARM = 50000, HELD = 4000, TURN = 16 };

static uint8_t frame[MOST_FRAME];

static void put16(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

/* TCP, in so many bytes a segment; whole frames only, so checksums do not matter. */
static int64_t make_frame(const struct network *network, int origin, int dest, uint32_t payload, uint32_t segment_bytes)
{
    uint32_t size = HEADERS + payload;
    bool is_super = payload > segment_bytes;
    memset(frame, 0, VNET + HEADERS);
    frame[0] = 1;
    frame[1] = is_super;
    memcpy(frame + 4, &(uint16_t){(uint16_t)(is_super ? segment_bytes : 0)}, 2);
    frame[6] = 20;
    frame[8] = 16;
    uint8_t *ip = frame + VNET;
    ip[0] = 0x45;
    put16(ip + 2, size);
    ip[8] = 64;
    ip[9] = 6;
    memcpy(ip + 12, &network->addresses[origin], 4);
    memcpy(ip + 16, &network->addresses[dest], 4);
    ip[32] = 0x50;
    ip[33] = 0x10;
    return VNET + size;
}

static void count_packets(void *context, const struct core_delivery *delivery)
{
    *(int64_t *)context += delivery->packets;
}

static double processor_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static struct forwarder *begin(struct network *network, struct core_wire wire, bool in_order)
{
    network_begin(network, NODES, false);
    for (int link = 0; link < network->links; link++)
        network->wires[link] = wire;
    struct core_forwarder_setup setup = *network_setup(network, 1500, in_order);
    setup.most_held_bytes = setup.most_held_of_one_bytes = INT64_C(1) << 40;
    return core_forwarder_new(&setup);
}

/* Every node sends to every other one, small frames and large ones, with loss, jitter and queues. */
static void carry(struct network *network, struct forwarder *forwarder, long frames, double *now_s, double every_s)
{
    int64_t packets = 0;
    for (long at = 0; at < frames; at++, *now_s += every_s) {
        int origin = (int)(at % NODES), dest = (origin + 1 + (int)(at / NODES) % (NODES - 1)) % NODES;
        int64_t bytes = make_frame(network, origin, dest, at % 3 ? SMALL : LARGE, SEGMENT);
        double wait[3];
        (void)core_forwarder_offer(forwarder, *now_s, origin, frame, bytes, *now_s, wait);
        if (at % TURN == 0)
            (void)core_forwarder_advance(forwarder, *now_s, count_packets, &packets);
        if (at % (1000 * TURN) == 0)
            core_model_release(core_forwarder_model(forwarder));
    }
}

static void try_steady_state(long frames)
{
    struct network network;
    struct core_wire wire = {8e-9, 0.01, 0.001, 0.01, 0.05, 1.0, 1};
    struct forwarder *forwarder = begin(&network, wire, true);
    double now_s = 0.0;
    carry(&network, forwarder, WARM, &now_s, 0.5e-5); /* more than there will ever be under way */
    int64_t asked = allocations.asked;
    double began_s = processor_s();
    carry(&network, forwarder, frames, &now_s, 1e-5);
    printf("frames %ld\nallocations %ld\nframe_us %.3f\n", frames, (long)(allocations.asked - asked),
           (processor_s() - began_s) / (double)frames * 1e6);
    core_forwarder_free(forwarder);
}

/* Frames of the most packets from two nodes, over links that let each packet overtake all others. */
static void try_worst_frame(int frames, const char *name)
{
    struct network network;
    struct forwarder *forwarder = begin(&network, (struct core_wire){8e-10, 0.5, 0.5, 0.0, 10.0, 1.0, 1}, false);
    int64_t packets = 0;
    double began_s = processor_s(), wait[3];
    for (int at = 0; at < frames; at++) {
        int64_t bytes = make_frame(&network, at % 2, 2 + at % 2, 44 * 1488, 44);
        (void)core_forwarder_offer(forwarder, 0.0, at % 2, frame, bytes, 0.0, wait);
    }
    (void)core_forwarder_advance(forwarder, 100.0, count_packets, &packets);
    EXPECT(packets == 1488 * frames);
    printf("%s %.3f\n", name, (processor_s() - began_s) / frames * 1e3);
    core_forwarder_free(forwarder);
}

static void try_worst_change(void)
{
    struct network network;
    struct forwarder *forwarder = begin(&network, (struct core_wire){8e-7, 0.5, 0.1, 0.0, 1e9, 1.0, 1}, true);
    struct core_totals totals;
    double wait[3];
    int64_t packets = 0;
    for (int at = 0; at < HELD; at++) {
        int64_t bytes = make_frame(&network, at % NODES, (at + 1) % NODES, 45 * SEGMENT, SEGMENT);
        (void)core_forwarder_offer(forwarder, 0.0, at % NODES, frame, bytes, 0.0, wait);
    }
    (void)core_forwarder_advance(forwarder, 1.0, count_packets, &packets);
    for (int link = 0; link < network.links; link++)
        network.wires[link].byte_s *= 1.5;
    double began_s = processor_s();
    EXPECT(core_model_change(core_forwarder_model(forwarder), 1.0, network_change(&network)) == 0);
    core_model_totals(core_forwarder_model(forwarder), &totals);
    printf("change_ms %.3f\nchange_frames %ld\n", (processor_s() - began_s) * 1e3, (long)totals.held_segments);
    core_forwarder_free(forwarder);
}

int main(int count, char **words)
{
    try_steady_state(count > 1 ? strtol(words[1], NULL, 10) : 0);
    try_worst_frame(1, "worst_frame_ms");
    try_worst_frame(40, "worst_frames_ms");
    try_worst_change();
    printf("kept %ld\n", (long)allocations.blocks);
    return 0;
}
