/* What the data plane waits for: frames from devices, the time when something is due, and the control plane. */

#ifndef TESTBED_WAITING_H
#define TESTBED_WAITING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

struct waiting {
    int epoll, timer; /* the timer only where the kernel's epoll knows no nanoseconds */
    double armed_s;
    struct epoll_event *ready;
    int ready_count, ready_room;
    bool is_woken; /* the control plane has something to do */
    double polled_s;
    double waking_s;   /* half of the times that it was to be woken at a time, it took longer until it ran */
    double quickest_s; /* it hardly ever took less: what woke it came so long before */
    double early_s;    /* how much before its time something is to wake it */
    double early_until_s;
    double arrived_s;   /* when, at the latest, what is ready has come */
    double empty_s;     /* devices that were not ready before had nothing then */
    double overslept_s; /* by how much the last call has returned later than it was to */
};

/* By the host's monotonic clock. */
double clock_now(void);

/* Gives 0, or an error. `wakeup` is readable when the control plane has something to do. */
int waiting_begin(struct waiting *waiting, int wakeup, uint32_t ports);
void waiting_end(struct waiting *waiting);

int waiting_add(struct waiting *waiting, uint32_t port, int descriptor);
void waiting_remove(struct waiting *waiting, int descriptor);

/* Waits until a device has something to read, until a time, though not for long, or a moment less where waking up takes
 * so long. `waiting->ready` then has the ports that do. */
void waiting_wait(struct waiting *waiting, double due_s);

static inline uint32_t ready_port(const struct epoll_event *event)
{
    return event->data.u32;
}

#endif
