#include "waiting.h"

#include "pool.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

/* So that a process which does not get the processor finds out, though nothing else is to be done. */
static const double HEARTBEAT_S = 0.01;
/* A call that takes no longer has not waited. */
static const double AT_ONCE_S = 0.0001;
/* What takes longer is no waking up, but a machine with other things to do. */
static const double LONGEST_WAKING_S = 0.0003;
/* By which the usual time to wake up follows what is seen: up and down as often, where half of all take longer. */
static const double STEP_S = 5e-6;
/* By which the least time to wake up may grow again each time, as when a machine has become slower. */
static const double CREEP_S = 1e-6;
/* Of the time that it has slept, this process may be awake too early, and look again and again until it is time. */
static const double EARLY_SHARE = 0.1;

/* In place of a port. */
static const uint32_t TIMER = UINT32_MAX, WAKEUP = UINT32_MAX - 1;
enum { NANOSECONDS = 1000000000 };

double clock_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / NANOSECONDS;
}

int waiting_add(struct waiting *waiting, uint32_t port, int descriptor)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = port};
    return epoll_ctl(waiting->epoll, EPOLL_CTL_ADD, descriptor, &event) ? errno : 0;
}

void waiting_remove(struct waiting *waiting, int descriptor)
{
    (void)epoll_ctl(waiting->epoll, EPOLL_CTL_DEL, descriptor, NULL);
}

int waiting_begin(struct waiting *waiting, int wakeup, uint32_t ports)
{
    *waiting = (struct waiting){.timer = -1, .armed_s = INFINITY, .ready_room = (int)ports + 2};
    waiting->early_until_s = waiting->arrived_s = -INFINITY;
    waiting->polled_s = clock_now();
    waiting->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (waiting->epoll < 0)
        return errno;
    waiting->ready = memory_new((size_t)waiting->ready_room, sizeof *waiting->ready);
    return waiting_add(waiting, WAKEUP, wakeup);
}

void waiting_end(struct waiting *waiting)
{
    (void)close(waiting->epoll);
    if (waiting->timer >= 0)
        (void)close(waiting->timer);
    free(waiting->ready);
}

/* epoll's own timeout of milliseconds is a thousand times too coarse. */
static int wait_by_timer(struct waiting *waiting, double due_s, double timeout_s)
{
    if (waiting->timer < 0) {
        waiting->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        if (waiting->timer < 0 || waiting_add(waiting, TIMER, waiting->timer))
            fail("no timer can be had");
    }
    if (timeout_s > 0.0 && due_s < waiting->armed_s) { /* one that goes off too early does no harm */
        struct itimerspec at = {.it_value = {(time_t)due_s, (long)(fmod(due_s, 1.0) * NANOSECONDS) + 1}};
        (void)timerfd_settime(waiting->timer, TFD_TIMER_ABSTIME, &at, NULL);
        waiting->armed_s = due_s;
    }
    int milliseconds = timeout_s > 0.0 ? (int)ceil(timeout_s * 1e3) : 0;
    return epoll_wait(waiting->epoll, waiting->ready, waiting->ready_room, milliseconds);
}

static int wait_for(struct waiting *waiting, double due_s, double timeout_s)
{
    if (waiting->timer >= 0)
        return wait_by_timer(waiting, due_s, timeout_s);
    /* As this call has it on every machine; where `long` has 32 bits, the C library's `struct timespec` is another. */
    struct {
        int64_t seconds, nanoseconds;
    } timeout = {0, (int64_t)(timeout_s * NANOSECONDS)};
    long found = syscall(SYS_epoll_pwait2, waiting->epoll, waiting->ready, waiting->ready_room, &timeout, NULL, 8);
    if (found < 0 && (errno == ENOSYS || errno == EPERM)) /* filters of system calls deny new ones by either */
        return wait_by_timer(waiting, due_s, timeout_s);
    return (int)found;
}

/* Of what comes while it sleeps, this process learns later, by as much as of a time that comes. */
static void learn(struct waiting *waiting, double asked_s, double due_s)
{
    if (asked_s < due_s && due_s < fmin(waiting->polled_s, asked_s + HEARTBEAT_S)) {
        double took_s = waiting->polled_s - due_s;
        double step_s = took_s > waiting->waking_s ? STEP_S : -STEP_S;
        waiting->waking_s = fmin(fmax(0.0, waiting->waking_s + step_s), LONGEST_WAKING_S);
        waiting->quickest_s = fmin(fmin(waiting->quickest_s + CREEP_S, took_s), LONGEST_WAKING_S);
    }
    waiting->arrived_s = fmax(asked_s, waiting->polled_s - waiting->quickest_s);
    double may_take_s = EARLY_SHARE * (waiting->polled_s - asked_s);
    waiting->early_s = waiting->waking_s <= may_take_s ? waiting->waking_s : 0.0;
    waiting->early_until_s = waiting->polled_s + may_take_s;
}

static void sort_out(struct waiting *waiting, int count)
{
    waiting->is_woken = false;
    waiting->ready_count = 0;
    for (int at = 0; at < count; at++) {
        uint32_t port = ready_port(&waiting->ready[at]);
        if (port == WAKEUP) {
            waiting->is_woken = true;
        } else if (port == TIMER) {
            uint64_t times;
            if (read(waiting->timer, &times, sizeof times) > 0)
                waiting->armed_s = INFINITY;
        } else {
            waiting->ready[waiting->ready_count++] = waiting->ready[at];
        }
    }
}

void waiting_wait(struct waiting *waiting, double due_s)
{
    double asked_s = clock_now();
    due_s -= waiting->early_s;
    double by_s = fmin(fmax(due_s, asked_s), asked_s + HEARTBEAT_S), timeout_s = by_s - asked_s;
    int count = wait_for(waiting, due_s, timeout_s);
    waiting->empty_s = waiting->polled_s;
    waiting->polled_s = waiting->arrived_s = clock_now();
    waiting->overslept_s = fmax(0.0, waiting->polled_s - by_s);
    if (timeout_s > 0.0 && waiting->polled_s - asked_s > AT_ONCE_S) {
        /* No device had anything, or the call would not have waited; but who oversleeps has not looked. */
        waiting->empty_s = fmin(waiting->polled_s, by_s);
        learn(waiting, asked_s, due_s);
    } else if (waiting->polled_s > waiting->early_until_s) {
        waiting->early_s = 0.0;
    }
    sort_out(waiting, count);
}
