#include "link.h"

#include <math.h>

void segment_lose(struct segment *segment, uint32_t pieces)
{
    segment->under_way -= pieces;
    segment->route->flow->dropped_packets += pieces;
}

/* Adds the travel of pieces that have left the queue, as jitter makes it. */
static void shake(struct link *link, struct hop *hop, struct travel travel, struct piece *carried, uint32_t count)
{
    double latency = link->wire.latency_s, jitter = link->wire.jitter_s;
    for (uint32_t at = 0; at < count; at++) {
        double takes = latency + jitter * draw_normal(&link->jitters, travel.normal_table);
        carried[at].time = carried[at].depart + (takes > 0.0 ? takes : 0.0);
    }
    if (!travel.in_order) {
        pieces_sort(carried, count);
        return;
    }
    double latest = hop->latest;
    for (uint32_t at = 0; at < count; at++) {
        if (carried[at].time < latest)
            carried[at].time = latest;
        else
            latest = carried[at].time;
    }
    hop->latest = latest;
}

uint32_t link_carry(struct link *link, struct train *train, uint32_t end, struct travel travel, struct piece *carried)
{
    struct segment *segment = train->segment;
    struct flow *flow = segment->route->flow;
    uint32_t offered = end - train->at;
    const struct core_wire *wire = &link->wire;
    if (!wire->is_up) {
        link->dropped_down += offered;
        segment_lose(segment, offered);
        return 0;
    }
    double backlog = link->backlog_s, at_s = link->at_s, waited = 0.0;
    double limit = wire->limit_s, byte_s = wire->byte_s, drain = wire->drain, loss = wire->loss;
    uint32_t too_long = 0, lost = 0, count = 0;
    int64_t sent_bytes = 0;
    for (uint32_t place = train->at; place < end; place++) {
        const struct piece *piece = &train->pieces[place];
        double wait = backlog - (piece->time - at_s) * drain;
        if (wait > 0.0) {
            if (wait > limit) {
                too_long++;
                continue;
            }
            waited += wait;
            if (wait > link->queue_max_s)
                link->queue_max_s = wait;
        } else {
            wait = 0.0;
        }
        backlog = wait + piece->size * byte_s;
        at_s = piece->time;
        sent_bytes += piece->size;
        if (loss > 0.0 && draw_uniform(&link->losses) < loss) {
            lost++;
            continue;
        }
        double depart = piece->time + backlog;
        carried[count++] = (struct piece){depart + wire->latency_s, depart, piece->number, piece->size};
    }
    link->backlog_s = backlog;
    link->at_s = at_s;
    link->packets += offered - too_long;
    link->bytes += sent_bytes;
    link->queue_s += waited;
    flow->queue_s += waited;
    if (too_long || lost) {
        link->dropped_queue += too_long;
        link->dropped_loss += lost;
        segment_lose(segment, too_long + lost);
    }
    if (wire->jitter_s > 0.0)
        shake(link, &segment->route->hops[train->hop], travel, carried, count);
    return count;
}

void link_rewire(struct link *link, double now_s, struct core_wire wire)
{
    const struct core_wire *old = &link->wire;
    double backlog = link->backlog_s - (now_s - link->at_s) * old->drain;
    link->backlog_s = backlog > 0.0 && wire.is_up ? backlog / old->byte_s * wire.byte_s : 0.0;
    link->at_s = now_s;
    link->wire = wire;
}

double link_free_since(const struct link *link)
{
    return link->pending.count ? INFINITY : link->at_s + link->backlog_s / link->wire.drain;
}
