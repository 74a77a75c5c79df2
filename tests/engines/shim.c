/* Another kernel, or a slower one, below the fabric: loaded before the C library.
 *
 * SHIM_ERROR: every read and write that says that it does not wait comes to the error of that number.
 * SHIM_LATE_US: what is read comes so much later where the read before was a moment ago.
 */

#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static long setting(const char *name)
{
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : 0;
}

static double now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static long call(long number, int descriptor, const struct iovec *vectors, int count, int flags)
{
    static double last;
    long error = setting("SHIM_ERROR"), late_us = setting("SHIM_LATE_US");
    if (error) {
        errno = (int)error;
        return -1;
    }
    if (number == SYS_preadv2 && late_us && now() - last < 0.01)
        usleep((useconds_t)late_us);
    last = now();
    return syscall(number, descriptor, vectors, count, -1L, -1L, flags);
}

ssize_t preadv2(int descriptor, const struct iovec *vectors, int count, off_t offset, int flags)
{
    (void)offset;
    return call(SYS_preadv2, descriptor, vectors, count, flags);
}

ssize_t pwritev2(int descriptor, const struct iovec *vectors, int count, off_t offset, int flags)
{
    (void)offset;
    return call(SYS_pwritev2, descriptor, vectors, count, flags);
}
