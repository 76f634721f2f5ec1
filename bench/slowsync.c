/* Makes every fsync and fdatasync of a program longer, as on a plain disk or a network volume.
 *
 *     cc -O2 -shared -fPIC -o slowsync.so slowsync.c
 *     LD_PRELOAD=./slowsync.so SYNC_DELAY_US=4000 some-server
 *
 * The sync itself is done first, then the calling thread sleeps; syncs of different threads overlap. Only
 * calls that go through the C library are caught: bench/compare checks that a commit has become slower. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct timespec delay;

__attribute__((constructor)) static void read_delay(void) {
    const char *text = getenv("SYNC_DELAY_US");
    long micros = text ? atol(text) : 0;
    delay.tv_sec = micros / 1000000;
    delay.tv_nsec = micros % 1000000 * 1000;
}

static int longer(long call, int fd) {
    int result = (int)syscall(call, fd);
    int error = errno;
    clock_nanosleep(CLOCK_MONOTONIC, 0, &delay, NULL);
    errno = error;
    return result;
}

int fsync(int fd) { return longer(SYS_fsync, fd); }
int fdatasync(int fd) { return longer(SYS_fdatasync, fd); }
