/* Traffic of benches, cheap enough that what carries it is the limit. Times are seconds of CLOCK_MONOTONIC.
 *
 * traffic flood ADDRESS FROM UNTIL SIZE [BPS]  UDP datagrams of SIZE bytes, headers included: BPS bits a second, or as
 *                                              many as possible
 * traffic sink  ADDRESS UNTIL                  takes them
 * traffic pour  ADDRESS FROM UNTIL             one TCP connection, as fast as it goes
 * traffic drain ADDRESS FROM UNTIL             takes it; counts what arrives from FROM to UNTIL
 *
 * ADDRESS is the receiver's. Prints how many datagrams or bytes it has sent or taken, and waits to be ended: until then
 * its connection is open, and its device can be asked for counts.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    PORT = 5001,
    UDP_HEADERS = 28,
    DATAGRAMS = 64, /* per call */
    LARGEST_CALL = 65507,
    BLOCK = 1 << 20,
    RETRY_US = 20000,
};

static char block[BLOCK];

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

static void sleep_until(double at)
{
    struct timespec until = {(time_t)at, (long)((at - (double)(time_t)at) * 1e9)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

/* Ends the program with what has failed, unless it has not. */
static int checked(int result, const char *what)
{
    if (result < 0) {
        printf("%s: %s\n", what, strerror(errno));
        exit(1);
    }
    return result;
}

static struct sockaddr_in at_port(const char *address)
{
    struct sockaddr_in found = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    if (inet_pton(AF_INET, address, &found.sin_addr) != 1) {
        printf("no address: %s\n", address);
        exit(1);
    }
    return found;
}

static int bound(int kind, const struct sockaddr_in *own)
{
    int made = checked(socket(AF_INET, kind, 0), "socket");
    checked(bind(made, (const struct sockaddr *)own, sizeof *own), "bind");
    return made;
}

/* Whether there is something to take before that time. */
static int waits_for(int descriptor, double until)
{
    double left = until - now();
    struct pollfd one = {descriptor, POLLIN, 0};
    return left > 0 && poll(&one, 1, (int)(left * 1e3) + 1) > 0;
}

/* One call is many datagrams: the kernel cuts a block into them (UDP_SEGMENT). At a slow pace, those of a millisecond. */
static long long flood(const struct sockaddr_in *dest, double from, double until, int size, double bps)
{
    int made = checked(socket(AF_INET, SOCK_DGRAM, 0), "socket"), payload = size - UDP_HEADERS;
    int many = payload * DATAGRAMS > LARGEST_CALL ? LARGEST_CALL / payload : DATAGRAMS;
    double per_s = bps / 8 / size;
    if (bps > 0 && per_s < many * 1e3)
        many = (int)(per_s / 1e3) + 1;
    checked(connect(made, (const struct sockaddr *)dest, sizeof *dest), "connect");
    checked(setsockopt(made, IPPROTO_UDP, UDP_SEGMENT, &payload, sizeof payload), "UDP_SEGMENT");
    long long sent = 0;
    for (sleep_until(from); now() < until; sleep_until(bps > 0 ? from + (double)sent / per_s : 0))
        if (send(made, block, (size_t)(payload * many), 0) > 0)
            sent += many;
    return sent;
}

static long long sink(const struct sockaddr_in *own, double until)
{
    int made = bound(SOCK_DGRAM, own);
    struct mmsghdr many[DATAGRAMS] = {0};
    long long taken = 0;
    while (waits_for(made, until)) {
        int count = recvmmsg(made, many, DATAGRAMS, MSG_DONTWAIT | MSG_TRUNC, NULL);
        taken += count > 0 ? count : 0;
    }
    return taken;
}

/* The listener may not be there yet. */
static int connected(const struct sockaddr_in *dest, double until)
{
    for (;;) {
        int made = checked(socket(AF_INET, SOCK_STREAM, 0), "socket");
        if (connect(made, (const struct sockaddr *)dest, sizeof *dest) == 0)
            return made;
        if (now() > until)
            checked(-1, "connect");
        close(made);
        usleep(RETRY_US);
    }
}

static long long pour(const struct sockaddr_in *dest, double from, double until)
{
    sleep_until(from);
    int made = connected(dest, until);
    struct timeval most = {1, 0};
    checked(setsockopt(made, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most), "SO_SNDTIMEO");
    long long sent = 0;
    while (now() < until) {
        ssize_t size = send(made, block, sizeof block, MSG_NOSIGNAL);
        if (size < 0 && errno != EAGAIN)
            break;
        sent += size > 0 ? size : 0;
    }
    return sent;
}

/* MSG_TRUNC: the kernel drops the bytes instead of copying them. */
static long long drain(const struct sockaddr_in *own, double from, double until)
{
    int listening = bound(SOCK_STREAM, own);
    checked(listen(listening, 1), "listen");
    if (!waits_for(listening, until))
        return 0;
    int made = checked(accept(listening, NULL, NULL), "accept");
    long long taken = 0, before = -1;
    while (waits_for(made, before < 0 ? from : until) || before < 0) {
        if (before < 0 && now() >= from)
            before = taken;
        ssize_t size = recv(made, block, sizeof block, MSG_TRUNC | MSG_DONTWAIT);
        if (size == 0)
            break;
        taken += size > 0 ? size : 0;
    }
    return taken - (before < 0 ? taken : before);
}

int main(int count, char **words)
{
    const char *role = count > 3 ? words[1] : "";
    const struct sockaddr_in address = at_port(count > 2 ? words[2] : "");
    const double first = count > 3 ? atof(words[3]) : 0, until = count > 4 ? atof(words[4]) : 0;
    long long found;
    if (!strcmp(role, "sink") && count == 4)
        found = sink(&address, first);
    else if (!strcmp(role, "flood") && (count == 6 || count == 7))
        found = flood(&address, first, until, atoi(words[5]), count == 7 ? atof(words[6]) : 0);
    else if (!strcmp(role, "pour") && count == 5)
        found = pour(&address, first, until);
    else if (!strcmp(role, "drain") && count == 5)
        found = drain(&address, first, until);
    else
        return 2;
    printf("%lld\n", found);
    fflush(stdout);
    pause();
    return 0;
}
