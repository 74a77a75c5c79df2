#include "frames.h"

#include <stdbool.h>
#include <string.h>

enum {
    NEEDS_CHECKSUM = 1,
    GSO_NONE = 0,
    GSO_TCP4 = 1,
    GSO_ECN = 0x80,
    TCP = 6,
    UDP = 17,
    TCP_CHECKSUM_AT = 16,
    UDP_CHECKSUM_AT = 6,
    IP_HEADER_BYTES = 20,
    TCP_HEADER_BYTES = 20,
    SMALLEST_SEGMENT = 44, /* of TCP's payload; Linux refuses smaller ones */
    FRAGMENT = 0x3FFF,     /* more to come, or not the first */
    TCP_FIN = 0x01,
    TCP_PSH = 0x08,
    TCP_CWR = 0x80
};

/* Numbers of a virtio-net header are in the host's order, those of packets in the network's. */
static uint16_t host16(const uint8_t *at)
{
    uint16_t found;
    memcpy(&found, at, sizeof found);
    return found;
}

static void put_host16(uint8_t *at, uint32_t value)
{
    uint16_t put = (uint16_t)value;
    memcpy(at, &put, sizeof put);
}

static uint32_t net16(const uint8_t *at)
{
    return (uint32_t)at[0] << 8 | at[1];
}

static void put_net16(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static uint32_t net32(const uint8_t *at)
{
    return net16(at) << 16 | net16(at + 2);
}

static void put_net32(uint8_t *at, uint32_t value)
{
    put_net16(at, value >> 16);
    put_net16(at + 2, value);
}

static void put_vnet(uint8_t *header, uint32_t headers, uint32_t segment_bytes, uint32_t checksum_at,
                     uint32_t checksum_offset)
{
    header[0] = NEEDS_CHECKSUM;
    header[1] = segment_bytes ? GSO_TCP4 : GSO_NONE;
    put_host16(header + 2, segment_bytes ? headers : 0);
    put_host16(header + 4, segment_bytes);
    put_host16(header + 6, checksum_at);
    put_host16(header + 8, checksum_offset);
}

static enum unfit single(struct frame *frame, uint32_t size, uint32_t mtu)
{
    if (size > mtu)
        return UNFIT_OVERSIZE;
    frame->pieces = 1;
    frame->size = frame->last_size = size;
    frame->payload_at = frame->segment_bytes = 0;
    return FIT;
}

/* The kernel leaves a checksum to the device only where it can be: at the place of this protocol, in a whole packet. */
static bool checksum_fits(const uint8_t *data, const uint8_t *packet, uint32_t size, uint32_t ip_bytes)
{
    uint32_t offset = packet[9] == TCP ? TCP_CHECKSUM_AT : packet[9] == UDP ? UDP_CHECKSUM_AT : 0;
    return offset && host16(data + 6) == ip_bytes && host16(data + 8) == offset && !(net16(packet + 6) & FRAGMENT) &&
           size >= ip_bytes + offset + 2;
}

enum unfit frame_read(struct frame *frame, const uint8_t *data, uint32_t bytes, uint32_t source, uint32_t mtu)
{
    if (bytes <= VNET_BYTES)
        return UNFIT_MALFORMED;
    const uint8_t *packet = data + VNET_BYTES;
    uint32_t size = bytes - VNET_BYTES, version = packet[0] >> 4, ip_bytes = (packet[0] & 15u) * 4u;
    if (version != 4)
        return version == 6 ? UNFIT_IPV6 : UNFIT_MALFORMED;
    if (ip_bytes < IP_HEADER_BYTES || size < ip_bytes || net16(packet + 2) != size)
        return UNFIT_MALFORMED;
    if (memcmp(packet + 12, &source, sizeof source) != 0)
        return UNFIT_FOREIGN_SOURCE;
    memcpy(&frame->dest, packet + 16, sizeof frame->dest);
    uint32_t gso = data[1], segment_bytes = host16(data + 4);
    if (!(data[0] & NEEDS_CHECKSUM)) {
        memset(frame->header, 0, sizeof frame->header);
        return gso != GSO_NONE ? UNFIT_OFFLOAD : single(frame, size, mtu);
    }
    if (!checksum_fits(data, packet, size, ip_bytes))
        return UNFIT_OFFLOAD;
    if (gso == GSO_NONE) {
        put_vnet(frame->header, 0, 0, ip_bytes, host16(data + 8));
        return single(frame, size, mtu);
    }
    if ((gso & ~(uint32_t)GSO_ECN) != GSO_TCP4 || packet[9] != TCP || size < ip_bytes + TCP_HEADER_BYTES)
        return UNFIT_OFFLOAD;
    uint32_t headers = ip_bytes + (packet[ip_bytes + 12] >> 4) * 4u;
    if (headers < ip_bytes + TCP_HEADER_BYTES || headers >= size || segment_bytes < SMALLEST_SEGMENT)
        return UNFIT_OFFLOAD;
    if (headers + segment_bytes > mtu)
        return UNFIT_OVERSIZE;
    uint32_t payload = size - headers, rest = payload % segment_bytes;
    frame->pieces = payload / segment_bytes + (rest ? 1 : 0);
    frame->size = headers + segment_bytes;
    frame->last_size = rest ? headers + rest : frame->size;
    frame->payload_at = VNET_BYTES + headers;
    frame->segment_bytes = segment_bytes;
    put_vnet(frame->header, headers, frame->pieces > 1 ? segment_bytes : 0, ip_bytes, TCP_CHECKSUM_AT);
    return FIT;
}

int is_group(uint32_t address)
{
    const uint8_t BROADCAST[] = {198, 19, 255, 255};
    uint8_t bytes[4];
    memcpy(bytes, &address, sizeof bytes);
    return bytes[0] >= 224 || memcmp(bytes, BROADCAST, sizeof bytes) == 0;
}

/* The ones' complement sum of 16-bit words in the network's order. */
static uint32_t folded(uint32_t sum, const uint8_t *data, uint32_t bytes)
{
    for (uint32_t at = 0; at < bytes; at += 2)
        sum += net16(data + at);
    while (sum >> 16)
        sum = (sum & 0xFFFF) + (sum >> 16);
    return sum;
}

void frame_part(struct part *part, const uint8_t *data, uint32_t bytes, uint32_t payload_at, uint32_t segment_bytes,
                uint32_t first, uint32_t last)
{
    uint32_t headers = payload_at - VNET_BYTES, ip_bytes = (data[VNET_BYTES] & 15u) * 4u;
    part->from = payload_at + first * segment_bytes;
    part->to = payload_at + last * segment_bytes;
    if (part->to > bytes)
        part->to = bytes;
    part->head_bytes = payload_at;
    uint8_t *ip = part->head + VNET_BYTES, *tcp = ip + ip_bytes;
    memcpy(ip, data + VNET_BYTES, headers);
    uint32_t payload = part->to - part->from, size = headers + payload;
    put_net16(ip + 2, size);
    put_net16(ip + 4, net16(ip + 4) + first);
    put_net16(ip + 10, 0);
    put_net16(ip + 10, folded(0, ip, ip_bytes) ^ 0xFFFF);
    put_net32(tcp + 4, net32(tcp + 4) + first * segment_bytes);
    if (part->to != bytes)
        tcp[13] &= (uint8_t) ~(TCP_FIN | TCP_PSH);
    if (first)
        tcp[13] &= (uint8_t)~TCP_CWR;
    put_net16(tcp + 16, folded(TCP + size - ip_bytes, ip + 12, 8));
    put_vnet(part->head, headers, payload > segment_bytes ? segment_bytes : 0, ip_bytes, TCP_CHECKSUM_AT);
}
