#include "ports.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 0x00000008
#endif

static void count_failure(struct port *port, int64_t kind, int error, int64_t packets)
{
    for (int at = 0; at < CORE_FAILURES; at++) {
        struct core_failure *failure = &port->failures[at];
        bool is_last = at == CORE_FAILURES - 1; /* so many kinds of errors do not exist; none is lost */
        if (failure->count == 0 || is_last || (failure->kind == kind && failure->error == error)) {
            failure->kind = kind;
            failure->error = error;
            failure->count += packets;
            return;
        }
    }
}

/* Whether this kernel has just said that it is one of the older ones: the call is made again, in their way. */
static bool is_too_much(struct ports *ports)
{
    if (errno != EOPNOTSUPP || !ports->calls_say_so)
        return false;
    ports->calls_say_so = false;
    (void)fputs("this kernel is older than 6.4: TUN devices are read and written by O_NONBLOCK\n", stderr);
    return true;
}

static void do_not_wait(int descriptor)
{
    int flags = fcntl(descriptor, F_GETFL);
    if (flags >= 0)
        (void)fcntl(descriptor, F_SETFL, flags | O_NONBLOCK);
}

static ssize_t read_old(int descriptor, const struct iovec *into)
{
    struct pollfd asked = {.fd = descriptor, .events = POLLIN};
    if (poll(&asked, 1, 0) <= 0) {
        errno = EAGAIN;
        return -1;
    }
    do_not_wait(descriptor);
    return readv(descriptor, into, 1);
}

ssize_t port_read(struct ports *ports, struct port *port, uint8_t *into, size_t room)
{
    struct iovec vector = {into, room};
    for (;;) {
        ssize_t bytes = ports->calls_say_so ? preadv2(port->descriptor, &vector, 1, -1, RWF_NOWAIT)
                                            : read_old(port->descriptor, &vector);
        if (bytes >= 0) {
            port->frames_in++;
            return bytes;
        }
        if (errno == EAGAIN || errno == EINTR)
            return 0;
        if (!is_too_much(ports)) {
            int error = errno;
            count_failure(port, CORE_READ, error, 1);
            return -error;
        }
    }
}

bool port_write(struct ports *ports, struct port *port, const struct core_delivery *delivery)
{
    if (port->descriptor < 0) {
        port->absent += delivery->packets;
        return false;
    }
    struct iovec vectors[] = {{(void *)(uintptr_t)delivery->head, (size_t)delivery->head_bytes},
                              {(void *)(uintptr_t)delivery->tail, (size_t)delivery->tail_bytes}};
    int count = delivery->tail_bytes ? 2 : 1;
    for (;;) {
        ssize_t bytes;
        if (ports->calls_say_so) {
            bytes = pwritev2(port->descriptor, vectors, count, -1, RWF_NOWAIT);
        } else {
            do_not_wait(port->descriptor);
            bytes = writev(port->descriptor, vectors, count);
        }
        if (bytes >= 0)
            break;
        if (!is_too_much(ports)) {
            count_failure(port, CORE_WRITE, errno, delivery->packets);
            return false;
        }
    }
    port->packets_out += delivery->packets;
    port->bytes_out += delivery->size_bytes;
    return true;
}
