/* Any frames, changes and calls in any order, over a forwarder; the books must balance, and nothing is kept.
 *
 * Frames of other hosts (`core_forwarder_take`) may say anything, too.
 */

#include "allocations.h"
#include "story.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CALLS = 200, MOST_OFFERED = 96 };

struct fuzzed {
    struct story story;
    struct network network;
    struct ledger ledger;
    struct forwarder *forwarder;
    struct model *model;
    double now_s, due_s;
    double overdue_s; /* by how much at most the order may be broken by changes since the latest advance */
    double not_before_s; /* nothing is due before */
    uint8_t frame[MOST_FRAME];
};

static void came_out(void *context, const struct core_delivery *delivery)
{
    static uint8_t data[MOST_FRAME];
    struct fuzzed *fuzzed = context;
    EXPECT(delivery->due_s >= fuzzed->due_s - fuzzed->overdue_s && delivery->due_s <= fuzzed->now_s);
    EXPECT(delivery->due_s >= fuzzed->not_before_s);
    fuzzed->due_s = fmax(fuzzed->due_s, delivery->due_s);
    EXPECT(delivery->head_bytes + delivery->tail_bytes <= MOST_FRAME);
    memcpy(data, delivery->head, (size_t)delivery->head_bytes);
    if (delivery->tail_bytes)
        memcpy(data + delivery->head_bytes, delivery->tail, (size_t)delivery->tail_bytes);
    ledger_check(&fuzzed->ledger, delivery->dest, data, (uint32_t)(delivery->head_bytes + delivery->tail_bytes),
                 delivery->packets, delivery->size_bytes);
}

static void advance(struct fuzzed *fuzzed, double to_s)
{
    double next_s = core_model_next(fuzzed->model);
    EXPECT(next_s >= fuzzed->now_s);
    fuzzed->not_before_s = next_s > fuzzed->now_s ? next_s : 0.0; /* or it is overdue, by a change */
    fuzzed->now_s = to_s;
    EXPECT(core_forwarder_advance(fuzzed->forwarder, to_s, came_out, fuzzed) == 0);
    EXPECT(core_model_next(fuzzed->model) >= to_s);
    fuzzed->overdue_s = 0.0;
}

static void offer(struct fuzzed *fuzzed)
{
    int origin = story_byte(&fuzzed->story) % fuzzed->network.nodes;
    uint32_t bytes = story_frame(&fuzzed->story, &fuzzed->network, origin, fuzzed->frame);
    double wait[3], since_s = fuzzed->now_s - story_step_s(&fuzzed->story);
    int64_t found = core_forwarder_offer(fuzzed->forwarder, fuzzed->now_s, origin, fuzzed->frame, bytes, since_s, wait);
    EXPECT(found == 0 || found == 1);
    if (!found)
        return;
    ledger_add(&fuzzed->ledger, fuzzed->frame, bytes, NULL, 0);
    EXPECT(wait[0] >= 0.0 && wait[1] >= wait[0] && wait[1] <= fuzzed->now_s - since_s);
}

static void take(struct fuzzed *fuzzed)
{
    static const double TIMES_S[] = {0.0, -1.0, 0.001, 1.0, NAN, INFINITY, -INFINITY, 0.0};
    struct story *story = &fuzzed->story;
    int told = story_byte(story), origin = told % fuzzed->network.nodes;
    uint32_t bytes = story_frame(story, &fuzzed->network, origin, fuzzed->frame);
    uint32_t numbers[MOST_PACKETS + 10], first = story_byte(story), step = (uint32_t)told / 16 % 4;
    double times_s[MOST_PACKETS + 10];
    int64_t count = told & 128 ? story_byte(story) : story_16(story) % (MOST_PACKETS + 10);
    bool is_odd = false;
    for (int64_t at = 0; at < count; at++) {
        uint8_t told_time = story_byte(story);
        numbers[at] = told_time == 255 ? story_16(story) << 16 : first + step * (uint32_t)at;
        times_s[at] = fuzzed->now_s + (double)at * 1e-5 + TIMES_S[told_time < 248 ? told_time % 4 : told_time % 8];
        is_odd = is_odd || !isfinite(times_s[at]);
    }
    int64_t link = (int64_t)story_byte(story) - 1, rank = told / 64 % 2 ? (int64_t)story_byte(story) - 100 : origin;
    int64_t found = core_forwarder_take(fuzzed->forwarder, rank, fuzzed->frame, bytes, link, numbers, times_s, count);
    EXPECT(found == 0 || (found == 1 && rank == origin && !is_odd && count > 0));
    if (found)
        ledger_add(&fuzzed->ledger, fuzzed->frame, bytes, numbers, count);
}

/* What calls with times, ranks or sizes that cannot be have to answer, for a frame that is sound. */
static void ask_wrongly(struct fuzzed *fuzzed)
{
    static const uint8_t SOUND[VNET + 20] = {[VNET] = 0x45, [VNET + 3] = 20};
    const int64_t too_large = (INT64_C(1) << 32) + (int64_t)sizeof SOUND;
    double wait[3], now_s = fuzzed->now_s, past_s = nextafter(now_s, -INFINITY);
    struct forwarder *forwarder = fuzzed->forwarder;
    uint8_t *frame = memcpy(fuzzed->frame, SOUND, sizeof SOUND);
    memcpy(frame + VNET + 12, fuzzed->network.addresses, 2 * sizeof *fuzzed->network.addresses);
    EXPECT(core_forwarder_offer(forwarder, past_s, 0, frame, sizeof SOUND, 0.0, wait) == CORE_BACKWARDS);
    EXPECT(core_forwarder_advance(forwarder, past_s, came_out, fuzzed) == CORE_BACKWARDS);
    EXPECT(core_model_change(fuzzed->model, past_s, &fuzzed->network.change) == CORE_BACKWARDS);
    EXPECT(core_forwarder_offer(forwarder, now_s, -1, frame, sizeof SOUND, 0.0, wait) == CORE_BAD_RANK);
    EXPECT(core_forwarder_offer(forwarder, now_s, fuzzed->network.nodes, frame, sizeof SOUND, 0.0, wait) ==
           CORE_BAD_RANK);
    EXPECT(core_forwarder_offer(forwarder, now_s, 0, frame, too_large, 0.0, wait) == 0);
    EXPECT(core_forwarder_take(forwarder, 0, frame, too_large, 0, &(uint32_t){0}, &now_s, 1) == 0);
    EXPECT(core_forwarder_take(forwarder, 0, frame, sizeof SOUND, 0, &(uint32_t){0}, &now_s, -1) == 0);
}

static void compare(struct fuzzed *fuzzed, bool is_over)
{
    struct core_totals totals;
    struct core_link_counts links[MOST_LINKS];
    struct core_pair_counts pairs[MOST_NODES * MOST_NODES];
    core_model_totals(fuzzed->model, &totals);
    EXPECT(totals.now_s == fuzzed->now_s);
    EXPECT(totals.used_links <= fuzzed->network.links && totals.pairs <= MOST_NODES * MOST_NODES);
    core_model_links(fuzzed->model, links);
    core_model_pairs(fuzzed->model, pairs);
    int64_t on_links = totals.no_path, offered = totals.taken, arrived = 0, arrived_bytes = 0, dropped = 0;
    for (int64_t at = 0; at < totals.used_links; at++) {
        on_links += links[at].dropped_queue + links[at].dropped_loss + links[at].dropped_down;
        EXPECT(links[at].queue_max_s >= 0.0 && links[at].bytes >= 20 * links[at].packets);
    }
    for (int64_t at = 0; at < totals.pairs; at++) {
        offered += pairs[at].offered_packets;
        arrived += pairs[at].arrived_packets;
        arrived_bytes += pairs[at].arrived_bytes;
        dropped += pairs[at].dropped_packets;
    }
    EXPECT(on_links == dropped);
    EXPECT(arrived >= fuzzed->ledger.came_out && offered >= arrived + dropped);
    EXPECT(totals.held_segments >= 0 && totals.held_bytes >= VNET * totals.held_segments);
    if (!is_over)
        return;
    EXPECT(offered == arrived + dropped);
    EXPECT(arrived == fuzzed->ledger.came_out && arrived_bytes == fuzzed->ledger.came_out_bytes);
    EXPECT(totals.held_segments == 0 && totals.held_bytes == 0);
}

static void change(struct fuzzed *fuzzed)
{
    story_change(&fuzzed->story, &fuzzed->network);
    fuzzed->now_s += story_step_s(&fuzzed->story);
    EXPECT(core_model_change(fuzzed->model, fuzzed->now_s, network_change(&fuzzed->network)) == 0);
    /* A piece that waited for another of its group goes without it when that one is dropped now: after what was due
     * before this change, though it would have been due up to a window earlier. */
    fuzzed->overdue_s = fuzzed->network.model.longest_window_s;
}

static void finish(struct fuzzed *fuzzed)
{
    for (double next_s; (next_s = core_model_next(fuzzed->model)) < INFINITY;)
        advance(fuzzed, fmax(next_s, fuzzed->now_s));
    core_model_release(fuzzed->model);
    compare(fuzzed, true);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzzed fuzzed;
    int64_t blocks = allocations.blocks;
    struct story *story = &fuzzed.story;
    *story = (struct story){.data = data, .left = size};
    uint8_t told = story_byte(story);
    uint32_t mtu = told & 16 ? 1500 : 300;
    story_network(story, &fuzzed.network);
    fuzzed.forwarder = core_forwarder_new(network_setup(&fuzzed.network, mtu, told & 1));
    fuzzed.model = core_forwarder_model(fuzzed.forwarder);
    fuzzed.now_s = fuzzed.due_s = fuzzed.overdue_s = 0.0;
    fuzzed.ledger =
        (struct ledger){.mtu = mtu, .addresses = fuzzed.network.addresses, .nodes = fuzzed.network.nodes};
    for (int calls = 0; story->left && calls < MOST_CALLS; calls++) {
        uint8_t call = story_byte(story) % 16;
        bool has_room = fuzzed.ledger.count < MOST_OFFERED;
        if (call < 6 && has_room)
            offer(&fuzzed);
        else if (call < 8 && has_room)
            take(&fuzzed);
        else if (call < 11)
            advance(&fuzzed, fuzzed.now_s + story_step_s(story));
        else if (call < 12)
            advance(&fuzzed, fmax(fuzzed.now_s, fmin(core_model_next(fuzzed.model), 1e6)));
        else if (call < 14)
            change(&fuzzed);
        else if (call < 15)
            compare(&fuzzed, false);
        else if (story_byte(story) % 2)
            core_model_release(fuzzed.model);
        else
            ask_wrongly(&fuzzed);
    }
    if (told & 2)
        finish(&fuzzed);
    core_forwarder_free(fuzzed.forwarder);
    ledger_free(&fuzzed.ledger);
    EXPECT(allocations.blocks == blocks);
    return 0;
}
