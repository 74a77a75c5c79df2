/* The nodes' TUN devices: one descriptor for each node that is attached.
 *
 * No read or write ever waits, whatever the node does to the open file that it shares with the fabric: every call says
 * so itself (RWF_NOWAIT). Kernels before 6.4 know no such calls of TUN devices. There O_NONBLOCK is set before each
 * call, and a device is read only when the kernel has just said that it has something. A node that takes the flag away
 * in just that moment, and reads its own packets, makes the fabric wait for it, and control ends the run then.
 */

#ifndef TESTBED_PORTS_H
#define TESTBED_PORTS_H

#include "capture.h"
#include "core.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct port {
    int descriptor; /* negative while the node is not attached */
    int64_t frames_in, packets_out, bytes_out, absent;
    struct core_failure failures[CORE_FAILURES]; /* by kind and error; those with count 0 are free */
    double since_s;     /* what is read now cannot have waited since before that */
    bool is_empty;      /* it had nothing more to read when it was read last */
    int64_t marked_at;  /* of `frames_in`, when `marked_s` was */
    double marked_s;
    struct capture *capture;
};

struct ports {
    struct port *ports;
    uint32_t count;
    bool calls_say_so; /* that they do not wait; false as soon as this kernel has said that it knows no such calls */
};

/* One frame into a buffer: how many bytes, 0 when there is none, or the error, negative, when there will never be one
 * again. */
ssize_t port_read(struct ports *ports, struct port *port, uint8_t *into, size_t room);

/* Whether the node has the packets; what it could not take is counted and gone, as at any network card. */
bool port_write(struct ports *ports, struct port *port, const struct core_delivery *delivery);

#endif
