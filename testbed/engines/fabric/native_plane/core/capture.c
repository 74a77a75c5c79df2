#include "capture.h"

#include "pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 17, LONGEST = 262144, LINKTYPE_RAW = 101 };

struct capture {
    int descriptor;
    int64_t ended; /* why nothing is written any more, though it goes on */
    int64_t left_bytes;
    size_t used;
    uint8_t buffer[BUFFER_BYTES];
};

struct record {
    uint32_t seconds, nanoseconds, bytes, original_bytes;
};

static void put(struct capture *capture, const void *data, size_t bytes)
{
    if (bytes > BUFFER_BYTES - capture->used)
        capture_flush(capture);
    memcpy(capture->buffer + capture->used, data, bytes);
    capture->used += bytes;
}

struct capture *capture_begin(int descriptor, int64_t most_bytes)
{
    const uint32_t header[] = {0xA1B23C4D /* nanoseconds */, 2 | 4 << 16, 0, 0, LONGEST, LINKTYPE_RAW};
    struct capture *capture = memory_new(1, sizeof *capture);
    capture->descriptor = descriptor;
    capture->left_bytes = most_bytes;
    put(capture, header, sizeof header);
    return capture;
}

void capture_add(struct capture *capture, const uint8_t *head, size_t head_bytes, const uint8_t *tail,
                 size_t tail_bytes)
{
    size_t bytes = head_bytes + tail_bytes;
    struct record record = {.bytes = (uint32_t)bytes, .original_bytes = (uint32_t)bytes};
    capture->left_bytes -= (int64_t)(sizeof record + bytes);
    if (!capture->ended && capture->left_bytes < 0)
        capture->ended = CORE_CAPTURE_FULL;
    if (capture->ended)
        return;
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    record.seconds = (uint32_t)now.tv_sec;
    record.nanoseconds = (uint32_t)now.tv_nsec;
    put(capture, &record, sizeof record);
    put(capture, head, head_bytes);
    if (tail_bytes)
        put(capture, tail, tail_bytes);
}

void capture_flush(struct capture *capture)
{
    /* What was added before the file became too large is written still. */
    for (size_t at = 0; at < capture->used && capture->ended <= 0;) {
        ssize_t bytes = write(capture->descriptor, capture->buffer + at, capture->used - at);
        if (bytes >= 0)
            at += (size_t)bytes;
        else if (errno != EINTR)
            capture->ended = errno;
    }
    capture->used = 0;
}

int64_t capture_end(struct capture *capture)
{
    capture_flush(capture);
    int64_t ended = capture->ended;
    free(capture);
    return ended;
}
