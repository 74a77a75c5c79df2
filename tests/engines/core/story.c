#include "story.h"

#include <string.h>

enum { TCP = 6, UDP = 17, ACK = 0x10, PATTERNS = 1024 };

double story_step_s(struct story *story)
{
    static const double STEPS_S[] = {0.0, 1e-6, 20e-6, 0.0002, 0.001, 0.0101, 0.3, 7.0};
    uint8_t told = story_byte(story);
    return STEPS_S[told % 8] * (1 + told / 8);
}

struct core_wire story_wire(struct story *story)
{
    static const double BYTES_S[] = {0.0, 0.0, 8e-9, 8e-7, 8e-6, 8e-3}, LATENCIES_S[] = {0.0, 0.0001, 0.01, 0.3, 5.0},
                        JITTERS_S[] = {0.0, 0.0, 0.00003, 0.004, 1.0}, LOSSES[] = {0.0, 0.0, 0.01, 0.3, 1.0},
                        LIMITS_S[] = {0.0, 0.0003, 0.02, 10.0}, DRAINS[] = {1.0, 1.0, 0.37, 0.001};
    uint32_t told = story_16(story), more = story_16(story);
    return (struct core_wire){
        .byte_s = BYTES_S[told % 6],
        .latency_s = LATENCIES_S[told / 6 % 5],
        .jitter_s = JITTERS_S[told / 30 % 5],
        .loss = LOSSES[told / 150 % 5],
        .limit_s = LIMITS_S[more % 4] + 1e-9,
        .drain = DRAINS[more / 4 % 4],
        .is_up = more / 16 % 8 != 7,
    };
}

void story_network(struct story *story, struct network *network)
{
    uint8_t told = story_byte(story);
    network_begin(network, 2 + told % (MOST_NODES - 1), told / 64 % 2);
    struct core_wire all = story_wire(story);
    for (int link = 0; link < network->links; link++)
        network->wires[link] = all;
    for (int other = told / 16 % 4; other > 0; other--)
        network->wires[story_byte(story) % network->links] = story_wire(story);
}

void story_change(struct story *story, struct network *network)
{
    uint8_t what = story_byte(story);
    switch (what % 5) {
    case 0:
        network->is_cut[what / 5 % network->nodes] ^= 1;
        break;
    case 1:
        network->route_set = 1 - network->route_set;
        break;
    case 2:
        network->partitions = what / 5 % 2;
        for (int node = 0; node < network->nodes; node++)
            network->groups[node] = story_byte(story) % 3 - 1;
        break;
    default:
        network->wires[story_byte(story) % network->links] = story_wire(story);
    }
}

static void put16(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static uint32_t any_bytes(struct story *story, uint8_t *data)
{
    uint32_t bytes = story_byte(story);
    for (uint32_t at = 0; at < bytes; at++)
        data[at] = story_byte(story);
    return bytes;
}

/* The IPv4 checksum of a header in which it is 0. */
static void put_checksum(uint8_t *ip, uint32_t ip_bytes)
{
    uint32_t sum = 0;
    for (uint32_t at = 0; at < ip_bytes; at += 2)
        sum += (uint32_t)ip[at] << 8 | ip[at + 1];
    sum = (sum & 0xFFFF) + (sum >> 16);
    sum = (sum & 0xFFFF) + (sum >> 16);
    put16(ip + 10, ~sum);
}

/* Bytes that tell where in which frame they are. */
static const uint8_t *payloads(void)
{
    static uint8_t bytes[65536 + PATTERNS];
    if (!bytes[1])
        for (uint32_t at = 0; at < sizeof bytes; at++)
            bytes[at] = (uint8_t)(at * at >> 5 ^ at * 7);
    return bytes;
}

uint32_t story_frame(struct story *story, const struct network *network, int origin, uint8_t *data)
{
    uint8_t kind = story_byte(story);
    if (kind < 16)
        return any_bytes(story, data);
    bool is_super = kind & 1, is_partial = is_super || kind & 2, is_tcp = is_super || kind & 4;
    uint32_t ip_bytes = 20 + (kind & 8 ? 4u * (story_byte(story) % 11) : 0);
    uint32_t tcp_bytes = !is_tcp ? 8 : 20 + (kind & 16 ? 4u * (story_byte(story) % 11) : 0);
    uint32_t payload = story_16(story) >> ((kind & 96) == 96 ? 0 : 5), segment_bytes = 0;
    if (is_super)
        segment_bytes = kind & 64 ? 44u + story_byte(story) : 1 + story_16(story) % 1460;
    uint32_t headers = ip_bytes + tcp_bytes, most = is_super ? 65535 - headers : 1500 - headers;
    uint32_t size = headers + (payload <= most ? payload : payload % most);
    memset(data, 0, VNET + headers);
    memcpy(data + VNET + headers, payloads() + story->frames++ % PATTERNS, size - headers);
    uint8_t *ip = data + VNET, *next = ip + ip_bytes;
    data[0] = is_partial;
    data[1] = is_super ? 1 : 0;
    memcpy(data + 4, &(uint16_t){(uint16_t)segment_bytes}, 2);
    if (is_partial) {
        memcpy(data + 6, &(uint16_t){(uint16_t)ip_bytes}, 2);
        memcpy(data + 8, &(uint16_t){is_tcp ? 16 : 6}, 2);
    }
    ip[0] = (uint8_t)(0x40 | ip_bytes / 4);
    put16(ip + 2, size);
    uint8_t told = story_byte(story);
    int dest = (origin + 1 + told % 4) % network->nodes;
    ip[8] = 64;
    ip[9] = is_tcp ? TCP : UDP;
    memcpy(ip + 12, &network->addresses[origin], 4);
    memcpy(ip + 16, &network->addresses[dest], 4);
    if (is_tcp) {
        uint32_t *sequence = &story->sequence[origin][dest];
        uint8_t flags = story_byte(story);
        *sequence += told & 32 ? told : 0; /* a hole */
        put16(ip + 4, *sequence >> 8);
        put16(next + 4, *sequence >> 16);
        put16(next + 6, *sequence);
        next[12] = (uint8_t)(tcp_bytes << 2);
        next[13] = flags < 200 ? ACK : flags;
        *sequence += size - headers;
    }
    put_checksum(ip, ip_bytes);
    for (int patches = told / 64; patches > 0; patches--) {
        uint32_t at = story_byte(story) % (VNET + headers);
        data[at] = story_byte(story);
    }
    return VNET + size;
}
