#include "delays.h"

#include <math.h>

/* The steps of `Histogram` in Python: equal ones up to a tenth of a second, longer ones beyond. */
static const double STEP_S = 20e-6, LONG_S = 0.1, LONG_STEP_S = 2e-3;
enum { STEPS = 5000, LONG_STEPS = CORE_HISTOGRAM - STEPS - 1 };

static void add(struct core_histogram *histogram, double seconds)
{
    histogram->max_s = fmax(histogram->max_s, seconds);
    double step = seconds / STEP_S;
    if (step >= STEPS)
        step = fmin(STEPS + (seconds - LONG_S) / LONG_STEP_S, STEPS + LONG_STEPS);
    histogram->counts[step > 0.0 ? (int64_t)step : 0]++;
}

void delays_written(struct core_delays *delays, double late_s, double latency_s, int64_t packets)
{
    const struct core_delay_limits *limits = &delays->limits;
    add(&delays->lateness, late_s);
    delays->packets += packets;
    double limit_s = fmax(limits->late_s, limits->late_part * latency_s);
    if (late_s > limit_s)
        delays->late += packets;
    if (late_s > limits->far * limit_s)
        delays->far += packets;
}

void delays_overslept(struct core_delays *delays, double seconds)
{
    if (seconds <= delays->limits.absent_s)
        return;
    delays->absent_s += seconds;
    delays->longest_absence_s = fmax(delays->longest_absence_s, seconds);
}

void delays_read(struct core_delays *delays, struct wait wait)
{
    const struct core_delay_limits *limits = &delays->limits;
    delays->latency_s += wait.latency_s;
    add(&delays->waits, wait.idle_s);
    add(&delays->device_waits, wait.added_s);
    if (wait.added_s <= 0.0)
        return;
    delays->waited += wait.idle_s > limits->wait_s;
    delays->added_s += wait.added_s;
    delays->delayed += wait.added_s > limits->added_s && wait.added_s > limits->added_part * wait.latency_s;
}
