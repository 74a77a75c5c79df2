#include "ledger.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TCP = 6, UDP = 17, FIN_PSH = 0x09, CWR = 0x80 };

_Noreturn void wrong(const char *file, int line, const char *what)
{
    (void)fprintf(stderr, "%s:%d: expected %s\n", file, line, what);
    abort();
}

static uint32_t big16(const uint8_t *at)
{
    return (uint32_t)(at[0] * 256 + at[1]);
}

static uint32_t little16(const uint8_t *at)
{
    return (uint32_t)(at[1] * 256 + at[0]);
}

static uint32_t big32(const uint8_t *at)
{
    return big16(at) * 65536u + big16(at + 2);
}

/* RFC 1071, one byte after the other. */
static uint32_t ones_complement(const uint8_t *data, uint32_t bytes, uint32_t sum)
{
    for (uint32_t at = 0; at < bytes; at++)
        sum += at % 2 ? data[at] : data[at] * 256u;
    while (sum > 0xFFFF)
        sum = sum % 65536 + sum / 65536;
    return sum;
}

bool frame_facts(struct facts *facts, const uint8_t *data, uint32_t bytes, uint32_t mtu)
{
    const uint8_t *ip = data + VNET;
    if (bytes < VNET + 20 || bytes > MOST_FRAME || ip[0] / 16 != 4)
        return false;
    uint32_t size = bytes - VNET, ip_bytes = ip[0] % 16 * 4u;
    if (ip_bytes < 20 || ip_bytes > size || big16(ip + 2) != size)
        return false;
    *facts = (struct facts){.ip_bytes = ip_bytes, .packets = 1, .size = size, .is_partial = data[0] & 1};
    memcpy(&facts->source, ip + 12, 4);
    memcpy(&facts->dest, ip + 16, 4);
    uint32_t kind = data[1] & ~0x80u;
    if (!facts->is_partial)
        return data[1] == 0 && size <= mtu;
    uint32_t checksum_at = ip[9] == TCP ? 16 : 6;
    if ((ip[9] != TCP && ip[9] != UDP) || big16(ip + 6) % 0x4000 != 0 || little16(data + 6) != ip_bytes ||
        little16(data + 8) != checksum_at || ip_bytes + checksum_at + 2 > size)
        return false;
    if (data[1] == 0)
        return size <= mtu;
    if (kind != 1 || ip[9] != TCP || size < ip_bytes + 20)
        return false;
    facts->headers = ip_bytes + ip[ip_bytes + 12] / 16 * 4u;
    facts->segment_bytes = little16(data + 4);
    if (facts->headers < ip_bytes + 20 || facts->headers >= size || facts->segment_bytes < 44 ||
        facts->headers + facts->segment_bytes > mtu)
        return false;
    facts->packets = (size - facts->headers + facts->segment_bytes - 1) / facts->segment_bytes;
    return true;
}

void ledger_add(struct ledger *ledger, const uint8_t *data, uint32_t bytes, const uint32_t *numbers, int64_t count)
{
    struct entry_in *entry = &ledger->entries[ledger->count++];
    EXPECT(ledger->count <= MOST_FRAMES);
    EXPECT(frame_facts(&entry->facts, data, bytes, ledger->mtu));
    entry->data = malloc(bytes);
    memcpy(entry->data, data, bytes);
    entry->is_open = calloc(entry->facts.packets, 1);
    if (!numbers)
        memset(entry->is_open, 1, entry->facts.packets);
    for (int64_t at = 0; numbers && at < count; at++)
        entry->is_open[numbers[at]] = 1;
}

void ledger_free(struct ledger *ledger)
{
    for (int at = 0; at < ledger->count; at++) {
        free(ledger->entries[at].data);
        free(ledger->entries[at].is_open);
    }
    ledger->count = 0;
}

/* One packet of a frame, as it is on the wire. */
struct packet {
    uint8_t headers[120];
    uint32_t headers_bytes;
    const uint8_t *payload;
    uint32_t payload_bytes;
};

static void put16(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value / 256);
    at[1] = (uint8_t)value;
}

/* Checksums are left out: they follow from the rest. */
static struct packet packet_of(const struct facts *facts, const uint8_t *data, uint32_t number)
{
    struct packet packet = {.headers_bytes = facts->headers ? facts->headers : facts->ip_bytes};
    uint32_t at = number * facts->segment_bytes, whole = facts->size - packet.headers_bytes;
    bool is_part = facts->segment_bytes && facts->segment_bytes < whole;
    packet.payload_bytes = is_part && whole - at > facts->segment_bytes ? facts->segment_bytes : whole - at;
    packet.payload = data + VNET + packet.headers_bytes + at;
    uint8_t *ip = packet.headers;
    memcpy(ip, data + VNET, packet.headers_bytes);
    put16(ip + 10, 0);
    if (!facts->headers)
        return packet;
    uint8_t *tcp = ip + facts->ip_bytes;
    uint32_t sequence = big32(tcp + 4) + at;
    put16(ip + 2, packet.headers_bytes + packet.payload_bytes);
    put16(ip + 4, big16(ip + 4) + number);
    put16(tcp + 4, sequence / 65536);
    put16(tcp + 6, sequence % 65536);
    put16(tcp + 16, 0);
    if (number > 0)
        tcp[13] &= (uint8_t)~CWR;
    if (number + 1 < facts->packets)
        tcp[13] &= (uint8_t)~FIN_PSH;
    return packet;
}

static bool are_same(const struct packet *one, const struct packet *other)
{
    return one->headers_bytes == other->headers_bytes && one->payload_bytes == other->payload_bytes &&
           memcmp(one->headers, other->headers, one->headers_bytes) == 0 &&
           memcmp(one->payload, other->payload, one->payload_bytes) == 0;
}

/* Which packet of a frame that has gone in this may be: the only one, or by its place in the flow. */
static int64_t number_in(const struct entry_in *entry, const struct packet *packet)
{
    const struct facts *facts = &entry->facts;
    if (facts->packets == 1)
        return 0;
    uint32_t at = big32(packet->headers + facts->ip_bytes + 4) - big32(entry->data + VNET + facts->ip_bytes + 4);
    return at % facts->segment_bytes == 0 && at / facts->segment_bytes < facts->packets
               ? (int64_t)(at / facts->segment_bytes)
               : -1;
}

/* Reads a single packet as the part of a super-segment with such headers, which it may have been. */
static struct packet as_segment(const struct facts *facts, const uint8_t *data, uint32_t headers)
{
    struct facts whole = *facts;
    whole.headers = headers;
    if (data[VNET + 9] != TCP || headers > facts->size)
        whole.headers = 0;
    return packet_of(&whole, data, 0);
}

/* A frame that comes out as it went in has the sender's checksums; a part of one has right ones. */
static bool are_checksums_right(const struct facts *facts, const uint8_t *data, const struct entry_in *entry)
{
    const uint8_t *ip = data + VNET, *before = entry->data + VNET;
    uint32_t at = facts->ip_bytes + 16;
    bool has_tcp = entry->facts.headers > 0;
    if (entry->facts.packets == facts->packets)
        return memcmp(ip + 10, before + 10, 2) == 0 && (!has_tcp || memcmp(ip + at, before + at, 2) == 0);
    uint32_t pseudo = ones_complement(ip + 12, 8, TCP + facts->size - facts->ip_bytes);
    return ones_complement(ip, facts->ip_bytes, 0) == 0xFFFF && big16(ip + at) == pseudo;
}

/* Takes a packet of a frame that has come out off the books; tells whether it was there. */
static bool cross_out(struct ledger *ledger, const struct facts *facts, const uint8_t *data, uint32_t number)
{
    for (int at = 0; at < ledger->count; at++) {
        struct entry_in *entry = &ledger->entries[at];
        const struct facts *its = &entry->facts;
        if (its->source != facts->source || its->dest != facts->dest || its->is_partial != facts->is_partial ||
            its->ip_bytes != facts->ip_bytes || (facts->headers && !its->headers))
            continue;
        struct packet packet = its->headers && !facts->headers ? as_segment(facts, data, its->headers)
                                                               : packet_of(facts, data, number);
        if (packet.headers_bytes != (its->headers ? its->headers : its->ip_bytes))
            continue;
        int64_t which = number_in(entry, &packet);
        if (which < 0 || !entry->is_open[which])
            continue;
        struct packet its_packet = packet_of(its, entry->data, (uint32_t)which);
        if (are_same(&packet, &its_packet) && are_checksums_right(facts, data, entry)) {
            entry->is_open[which] = 0;
            return true;
        }
    }
    return false;
}

static void check_vnet(const struct facts *facts, const uint8_t *data)
{
    const uint8_t *ip = data + VNET;
    uint32_t protocol = ip[9];
    bool is_super = facts->segment_bytes > 0;
    EXPECT(data[0] == (facts->is_partial ? 1 : 0));
    EXPECT(data[1] == (is_super ? 1 : 0));
    EXPECT(little16(data + 2) == facts->headers);
    EXPECT(little16(data + 4) == facts->segment_bytes);
    EXPECT(little16(data + 6) == (facts->is_partial ? facts->ip_bytes : 0));
    EXPECT(little16(data + 8) == (!facts->is_partial ? 0 : protocol == TCP ? 16 : 6));
    EXPECT(!is_super || facts->packets > 1);
}

void ledger_check(struct ledger *ledger, int64_t dest, const uint8_t *data, uint32_t bytes, int64_t packets,
                  int64_t size_bytes)
{
    struct facts facts;
    EXPECT(frame_facts(&facts, data, bytes, ledger->mtu));
    EXPECT(dest >= 0 && dest < ledger->nodes && facts.dest == ledger->addresses[dest]);
    EXPECT(facts.packets == packets);
    EXPECT(facts.size + (packets - 1) * (int64_t)facts.headers == size_bytes);
    check_vnet(&facts, data);
    for (uint32_t number = 0; number < facts.packets; number++)
        EXPECT(cross_out(ledger, &facts, data, number));
    ledger->came_out += packets;
    ledger->came_out_bytes += size_bytes;
}
