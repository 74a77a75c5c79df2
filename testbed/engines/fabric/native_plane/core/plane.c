/* The data plane: one loop that reads devices, walks frames over the model and writes them when they are due.
 *
 * One turn: wait; read every device that has something until it has no more, though no more than READ_AT_ONCE frames,
 * so that no node starves another; write what is due, also in between.
 */

#include "capture.h"
#include "core.h"
#include "delays.h"
#include "forwarder.h"
#include "ports.h"
#include "waiting.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

enum {
    READ_AT_ONCE = 16,
    PIECES_AT_ONCE = 256, /* a frame of many small segments takes as long as many frames */
    DEVICE_HOLDS = 10000 /* frames; what is read after so many more has been written since */
};

/* Of the time scale. */
static const double SLACK_S = 100e-6;
static const double LATE_SHARE = 0.01;
/* Of the mean time from turn to turn, what the latest one weighs. */
static const double TURNS_SHARE = 0.1;
/* Times the slack: turns that follow one another faster are many. */
static const double BUSY = 1.5;

struct core_plane {
    struct forwarder *forwarder;
    struct ports ports;
    struct waiting waiting;
    struct core_delays delays;
    double slack_s;   /* by how much a packet may be late for others to be written with it, while there are many */
    double turned_s;  /* when the turn before was */
    double turning_s; /* from one turn to the next, in the mean of the latest ones */
    double began_s; /* the model's times are since then */
};

/* -- ports -------------------------------------------------------------------------------------------------------- */

int64_t core_plane_attach(struct core_plane *plane, int64_t rank, int64_t descriptor)
{
    struct port *port = &plane->ports.ports[rank];
    int error = waiting_add(&plane->waiting, (uint32_t)rank, (int)descriptor);
    if (error)
        return -error;
    port->descriptor = (int)descriptor;
    port->is_empty = true;
    port->since_s = port->marked_s = 0.0;
    port->marked_at = port->frames_in;
    return 0;
}

int64_t core_plane_detach(struct core_plane *plane, int64_t rank)
{
    struct port *port = &plane->ports.ports[rank];
    int descriptor = port->descriptor;
    if (descriptor >= 0)
        waiting_remove(&plane->waiting, descriptor);
    port->descriptor = -1;
    return descriptor;
}

void core_plane_begin_capture(struct core_plane *plane, int64_t rank, int64_t descriptor, int64_t most_bytes)
{
    plane->ports.ports[rank].capture = capture_begin((int)descriptor, most_bytes);
}

int64_t core_plane_end_capture(struct core_plane *plane, int64_t rank)
{
    struct port *port = &plane->ports.ports[rank];
    int64_t ended = port->capture ? capture_end(port->capture) : 0;
    port->capture = NULL;
    return ended;
}

void core_plane_flush_captures(struct core_plane *plane)
{
    for (uint32_t rank = 0; rank < plane->ports.count; rank++)
        if (plane->ports.ports[rank].capture)
            capture_flush(plane->ports.ports[rank].capture);
}

/* -- the loop ----------------------------------------------------------------------------------------------------- */

static void write_one(void *context, const struct core_delivery *delivery)
{
    struct core_plane *plane = context;
    struct port *port = &plane->ports.ports[delivery->dest];
    if (port_write(&plane->ports, port, delivery)) {
        double late_s = clock_now() - plane->began_s - delivery->due_s;
        delays_written(&plane->delays, late_s, delivery->latency_s, delivery->packets);
    }
    if (port->capture)
        capture_add(port->capture, delivery->head + VNET_BYTES, (size_t)delivery->head_bytes - VNET_BYTES,
                    delivery->tail, (size_t)delivery->tail_bytes);
}

/* What is due by now, and not after `until_s`: the network may change then. */
static void write_due(struct core_plane *plane, double until_s)
{
    double to_s = fmin(clock_now(), until_s) - plane->began_s;
    forwarder_advance(plane->forwarder, fmax(to_s, plane->forwarder->model->now_s), write_one, plane);
}

/* Since when what is read now may have waited: the device was empty then, or has been emptied once since. */
static void age(struct port *port, const struct waiting *waiting)
{
    if (port->is_empty) {
        port->since_s = fmax(port->since_s, waiting->empty_s);
    } else if (port->frames_in - port->marked_at >= DEVICE_HOLDS) {
        port->since_s = port->marked_s;
    } else {
        return;
    }
    port->marked_s = waiting->polled_s;
    port->marked_at = port->frames_in;
}

/* Reads a device until it has no more, or often enough for now. Gives 0, or the error for which it is lost. */
static int read_port(struct core_plane *plane, uint32_t rank)
{
    struct forwarder *forwarder = plane->forwarder;
    struct port *port = &plane->ports.ports[rank];
    age(port, &plane->waiting);
    port->is_empty = false;
    /* The first frame was there when the turn began; those behind it may have come since. */
    double at_s = plane->waiting.arrived_s;
    int64_t most_pieces = forwarder->pieces + PIECES_AT_ONCE;
    for (int count = 0; count < READ_AT_ONCE && forwarder->pieces < most_pieces; count++, at_s = clock_now()) {
        ssize_t bytes = port_read(&plane->ports, port, forwarder->spare, LARGEST_FRAME);
        if (bytes < 0)
            return (int)-bytes;
        if (bytes == 0) {
            port->is_empty = true;
            port->since_s = fmax(port->since_s, at_s);
            return 0;
        }
        if (port->capture && bytes > VNET_BYTES)
            capture_add(port->capture, forwarder->spare + VNET_BYTES, (size_t)bytes - VNET_BYTES, NULL, 0);
        double now_s = fmax(at_s - plane->began_s, forwarder->model->now_s);
        struct wait wait;
        if (forwarder_offer(forwarder, now_s, rank, (uint32_t)bytes, port->since_s - plane->began_s, &wait))
            delays_read(&plane->delays, wait);
    }
    return 0;
}

/* When to wake up next. While there are many packets, one may be late by a little, and several are written in a turn:
 * it is never more than LATE_SHARE of its path's latency. */
static double next_turn(struct core_plane *plane)
{
    double latency_s, due_s = model_next(plane->forwarder->model, &latency_s) + plane->began_s;
    double turned_s = plane->turned_s;
    plane->turned_s = plane->waiting.polled_s;
    plane->turning_s += (plane->turned_s - turned_s - plane->turning_s) * TURNS_SHARE;
    bool is_busy = plane->turning_s < BUSY * plane->slack_s;
    return is_busy ? due_s + fmin(plane->slack_s, LATE_SHARE * latency_s) : due_s;
}

int64_t core_plane_run(struct core_plane *plane, double until_s, struct core_lost *lost)
{
    struct waiting *waiting = &plane->waiting;
    int64_t lost_count = 0;
    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); /* or the kernel wakes this thread up to 50 us late */
    for (;;) {
        waiting_wait(waiting, fmin(next_turn(plane), until_s));
        int64_t unwritten_since = 0;
        for (int at = 0; at < waiting->ready_count; at++) {
            uint32_t rank = ready_port(&waiting->ready[at]);
            struct port *port = &plane->ports.ports[rank];
            int64_t before = port->frames_in;
            int error = read_port(plane, rank);
            if (error)
                lost[lost_count++] = (struct core_lost){rank, error, core_plane_detach(plane, rank)};
            unwritten_since += port->frames_in - before;
            if (unwritten_since >= READ_AT_ONCE) {
                write_due(plane, until_s);
                unwritten_since = 0;
            }
        }
        write_due(plane, until_s);
        delays_overslept(&plane->delays, waiting->overslept_s);
        if (waiting->is_woken || lost_count || clock_now() >= until_s)
            return lost_count;
    }
}

/* -- figures ------------------------------------------------------------------------------------------------------ */

void core_plane_ports(const struct core_plane *plane, struct core_port_figures *figures)
{
    for (uint32_t rank = 0; rank < plane->ports.count; rank++, figures++) {
        const struct port *port = &plane->ports.ports[rank];
        figures->is_attached = port->descriptor >= 0;
        figures->frames_in = port->frames_in;
        figures->packets_out = port->packets_out;
        figures->bytes_out = port->bytes_out;
        figures->absent = port->absent;
        memcpy(figures->failures, port->failures, sizeof figures->failures);
        core_forwarder_unfit(plane->forwarder, rank, figures->unfit);
    }
}

const struct core_delays *core_plane_delays(const struct core_plane *plane)
{
    return &plane->delays;
}

void core_plane_restart_delays(struct core_plane *plane)
{
    plane->delays = (struct core_delays){.limits = plane->delays.limits, .began_s = clock_now()};
}

/* -- from the beginning to the end -------------------------------------------------------------------------------- */

struct core_plane *core_plane_new(const struct core_forwarder_setup *setup, int64_t wakeup,
                                  const struct core_delay_limits *limits)
{
    struct core_plane *plane = memory_new(1, sizeof *plane);
    plane->began_s = clock_now();
    plane->slack_s = SLACK_S * setup->model->time_scale;
    plane->turning_s = 1.0;
    plane->delays.limits = *limits;
    core_plane_restart_delays(plane);
    plane->ports.count = (uint32_t)setup->model->nodes;
    plane->ports.ports = memory_new(plane->ports.count, sizeof *plane->ports.ports);
    plane->ports.calls_say_so = true;
    for (uint32_t rank = 0; rank < plane->ports.count; rank++)
        plane->ports.ports[rank].descriptor = -1;
    int error = waiting_begin(&plane->waiting, (int)wakeup, plane->ports.count);
    if (error)
        fail(strerror(error));
    plane->forwarder = core_forwarder_new(setup);
    return plane;
}

void core_plane_free(struct core_plane *plane)
{
    for (uint32_t rank = 0; rank < plane->ports.count; rank++)
        (void)core_plane_end_capture(plane, rank);
    waiting_end(&plane->waiting);
    core_forwarder_free(plane->forwarder);
    free(plane->ports.ports);
    free(plane);
}

struct forwarder *core_plane_forwarder(struct core_plane *plane)
{
    return plane->forwarder;
}

double core_plane_began(const struct core_plane *plane)
{
    return plane->began_s;
}
