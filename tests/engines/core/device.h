/* Clocks and system calls of a plane under test: time passes when the test says so, and calls fail when it says so.
 *
 * To be linked as `core_programs` says.
 */

#ifndef TESTBED_TEST_DEVICE_H
#define TESTBED_TEST_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

struct device_calls {
    int64_t now_ns;
    bool is_old_kernel; /* knows neither epoll_pwait2 nor calls on devices that do not wait */
    int read_error, write_error;
};

/* As the plane reads its clock. */
double device_now_s(void);

extern struct device_calls device_calls;

#endif
