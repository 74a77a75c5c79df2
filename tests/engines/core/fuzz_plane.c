/* Any calls of the control plane in any order, over devices from which any frames come.
 *
 * What devices get must have come from others, whole files of captures are well-formed, and nothing is kept.
 */

#include "allocations.h"
#include "device.h"
#include "story.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_CALLS = 120, MOST_SENT = 64, PCAP_HEADER = 24, PCAP_RECORD = 16, NONE = -1 };

struct fuzzed {
    struct story story;
    struct network network;
    struct ledger ledger;
    struct core_plane *plane;
    int devices[MOST_NODES]; /* the nodes' ends */
    int captures[MOST_NODES];
    int64_t captured[MOST_NODES]; /* at most */
    int64_t frames_in[MOST_NODES];
    uint8_t frame[MOST_FRAME + 1];
};

/* What the plane has written to a device. */
static void receive(struct fuzzed *fuzzed, int rank)
{
    ssize_t bytes;
    while ((bytes = recv(fuzzed->devices[rank], fuzzed->frame, MOST_FRAME + 1, MSG_DONTWAIT)) > 0) {
        struct facts facts;
        EXPECT(bytes <= MOST_FRAME && frame_facts(&facts, fuzzed->frame, (uint32_t)bytes, fuzzed->ledger.mtu));
        ledger_check(&fuzzed->ledger, rank, fuzzed->frame, (uint32_t)bytes, facts.packets,
                     facts.size + (int64_t)(facts.packets - 1) * facts.headers);
    }
}

static void detach(struct fuzzed *fuzzed, int rank)
{
    int64_t descriptor = core_plane_detach(fuzzed->plane, rank);
    EXPECT((descriptor >= 0) == (fuzzed->devices[rank] != NONE));
    if (descriptor < 0)
        return;
    receive(fuzzed, rank);
    (void)close((int)descriptor);
    (void)close(fuzzed->devices[rank]);
    fuzzed->devices[rank] = NONE;
}

static void attach(struct fuzzed *fuzzed, int rank)
{
    int ends[2];
    detach(fuzzed, rank);
    EXPECT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends) == 0);
    EXPECT(core_plane_attach(fuzzed->plane, rank, ends[0]) == 0);
    fuzzed->devices[rank] = ends[1];
    EXPECT(core_plane_attach(fuzzed->plane, rank, ends[0]) == -EEXIST);
}

static void send_frame(struct fuzzed *fuzzed, int rank)
{
    uint32_t bytes = story_frame(&fuzzed->story, &fuzzed->network, rank, fuzzed->frame);
    if (fuzzed->devices[rank] == NONE || !bytes || send(fuzzed->devices[rank], fuzzed->frame, bytes, MSG_DONTWAIT) < 0)
        return;
    struct facts facts;
    if (frame_facts(&facts, fuzzed->frame, bytes, fuzzed->ledger.mtu) &&
        facts.source == fuzzed->network.addresses[rank])
        ledger_add(&fuzzed->ledger, fuzzed->frame, bytes, NULL, 0);
}

static void run(struct fuzzed *fuzzed)
{
    struct core_lost lost[MOST_NODES];
    device_calls.now_ns += (int64_t)(story_step_s(&fuzzed->story) * 1e9);
    int64_t count = core_plane_run(fuzzed->plane, device_now_s(), lost);
    EXPECT(count >= 0 && count <= fuzzed->network.nodes);
    for (int64_t at = 0; at < count; at++) {
        int64_t rank = lost[at].rank;
        EXPECT(lost[at].error > 0 && lost[at].descriptor >= 0 && fuzzed->devices[rank] != NONE);
        receive(fuzzed, (int)rank);
        (void)close((int)lost[at].descriptor);
        (void)close(fuzzed->devices[rank]);
        fuzzed->devices[rank] = NONE;
    }
    for (int rank = 0; rank < fuzzed->network.nodes; rank++)
        if (fuzzed->devices[rank] != NONE)
            receive(fuzzed, rank);
}

static void begin_capture(struct fuzzed *fuzzed, int rank)
{
    if (fuzzed->captures[rank] != NONE)
        return;
    fuzzed->captures[rank] = memfd_create("capture", MFD_CLOEXEC);
    fuzzed->captured[rank] = 64 * (int64_t)story_byte(&fuzzed->story);
    core_plane_begin_capture(fuzzed->plane, rank, fuzzed->captures[rank], fuzzed->captured[rank]);
}

static void end_capture(struct fuzzed *fuzzed, int rank)
{
    int64_t why = core_plane_end_capture(fuzzed->plane, rank);
    EXPECT(why == 0 || why == CORE_CAPTURE_FULL);
    if (fuzzed->captures[rank] == NONE)
        return;
    off_t size = lseek(fuzzed->captures[rank], 0, SEEK_END), at = PCAP_HEADER;
    EXPECT(size >= PCAP_HEADER && size - PCAP_HEADER <= fuzzed->captured[rank]);
    while (at < size) {
        uint32_t record[4];
        EXPECT(pread(fuzzed->captures[rank], record, sizeof record, at) == PCAP_RECORD);
        EXPECT(record[2] == record[3] && record[2] <= 65535);
        at += PCAP_RECORD + (off_t)record[2];
    }
    EXPECT(at == size);
    (void)close(fuzzed->captures[rank]);
    fuzzed->captures[rank] = NONE;
}

/* Counts of ports never fall, and delays are counted for what was written. */
static void compare(struct fuzzed *fuzzed)
{
    int64_t written = 0;
    struct core_port_figures ports[MOST_NODES];
    core_plane_ports(fuzzed->plane, ports);
    for (int rank = 0; rank < fuzzed->network.nodes; rank++) {
        EXPECT(ports[rank].is_attached == (fuzzed->devices[rank] != NONE));
        EXPECT(ports[rank].frames_in >= fuzzed->frames_in[rank]);
        fuzzed->frames_in[rank] = ports[rank].frames_in;
        written += ports[rank].packets_out;
    }
    const struct core_delays *delays = core_plane_delays(fuzzed->plane);
    EXPECT(delays->packets <= written && delays->late <= delays->packets && delays->far <= delays->late);
    struct core_totals totals;
    core_model_totals(core_forwarder_model(core_plane_forwarder(fuzzed->plane)), &totals);
    EXPECT(totals.held_bytes >= VNET * totals.held_segments);
}

static void change(struct fuzzed *fuzzed)
{
    struct model *model = core_forwarder_model(core_plane_forwarder(fuzzed->plane));
    struct core_totals totals;
    core_model_totals(model, &totals);
    story_change(&fuzzed->story, &fuzzed->network);
    double now_s = fmax(totals.now_s, device_now_s() - core_plane_began(fuzzed->plane));
    EXPECT(core_model_change(model, now_s, network_change(&fuzzed->network)) == 0);
}

static void call(struct fuzzed *fuzzed, uint8_t told)
{
    int rank = told / 16 % fuzzed->network.nodes;
    switch (told % 16) {
    case 0:
        attach(fuzzed, rank);
        break;
    case 1:
        detach(fuzzed, rank);
        break;
    case 2:
        begin_capture(fuzzed, rank);
        break;
    case 3:
        end_capture(fuzzed, rank);
        break;
    case 4:
        core_plane_flush_captures(fuzzed->plane);
        core_model_release(core_forwarder_model(core_plane_forwarder(fuzzed->plane)));
        break;
    case 5:
        compare(fuzzed);
        if (told & 16)
            core_plane_restart_delays(fuzzed->plane);
        break;
    case 6:
        change(fuzzed);
        break;
    case 7:
        device_calls.read_error = told & 16 ? EIO : 0;
        device_calls.write_error = told & 32 ? EIO : 0;
        break;
    case 8:
    case 9:
    case 10:
        run(fuzzed);
        break;
    default:
        if (fuzzed->ledger.count < MOST_SENT)
            send_frame(fuzzed, rank);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct core_delay_limits LIMITS = {0.001, 0.01, 10.0, 0.001, 0.001, 0.01, 0.1};
    static struct fuzzed fuzzed;
    static int wakeup = NONE;
    if (wakeup == NONE)
        wakeup = eventfd(0, EFD_CLOEXEC);
    int64_t blocks = allocations.blocks;
    struct story *story = &fuzzed.story;
    *story = (struct story){.data = data, .left = size};
    uint8_t told = story_byte(story);
    uint32_t mtu = told & 16 ? 1500 : 300;
    story_network(story, &fuzzed.network);
    device_calls = (struct device_calls){.now_ns = INT64_C(1000000000000), .is_old_kernel = told & 2};
    fuzzed.plane = core_plane_new(network_setup(&fuzzed.network, mtu, told & 1), wakeup, &LIMITS);
    fuzzed.ledger =
        (struct ledger){.mtu = mtu, .addresses = fuzzed.network.addresses, .nodes = fuzzed.network.nodes};
    for (int rank = 0; rank < MOST_NODES; rank++) {
        fuzzed.devices[rank] = fuzzed.captures[rank] = NONE;
        fuzzed.frames_in[rank] = 0;
        if (rank < fuzzed.network.nodes)
            attach(&fuzzed, rank);
    }
    for (int calls = 0; story->left && calls < MOST_CALLS; calls++)
        call(&fuzzed, story_byte(story));
    compare(&fuzzed);
    for (int rank = 0; rank < fuzzed.network.nodes; rank++) {
        end_capture(&fuzzed, rank);
        detach(&fuzzed, rank);
    }
    core_plane_free(fuzzed.plane);
    ledger_free(&fuzzed.ledger);
    EXPECT(allocations.blocks == blocks);
    return 0;
}
