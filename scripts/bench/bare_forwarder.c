/* Yardstick of benches: carries frames between two TUN devices as they come, and does nothing else.
 *
 * bare_forwarder DESCRIPTOR DESCRIPTOR, both non-blocking; ends when a device does, or when it is killed.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    LARGEST_FRAME = 65536 + 64, /* with its vnet header */
    TURN = 64,                  /* frames of one device before the other's */
};

static char frame[LARGEST_FRAME];

/* Carries what `from` has, at most TURN frames; 0 when a device is gone. */
static int carry(int from, int to)
{
    for (int turn = 0; turn < TURN; turn++) {
        ssize_t size = read(from, frame, sizeof frame);
        if (size < 0)
            return errno == EAGAIN || errno == EINTR;
        if (write(to, frame, (size_t)size) < 0 && errno == EBADFD)
            return 0;
    }
    return 1;
}

int main(int count, char **words)
{
    if (count != 3)
        return 2;
    struct pollfd ends[2] = {{atoi(words[1]), POLLIN, 0}, {atoi(words[2]), POLLIN, 0}};
    for (;;) {
        if (poll(ends, 2, -1) < 0 && errno != EINTR)
            return 1;
        for (int side = 0; side < 2; side++)
            if (ends[side].revents && !carry(ends[side].fd, ends[1 - side].fd))
                return 0;
    }
}
