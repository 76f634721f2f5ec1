/* Makes every fsync and fdatasync of a program longer, as on a plain disk or a network volume, and counts them.
 *
 *     cc -O2 -shared -fPIC -o slowsync.so slowsync.c
 *     LD_PRELOAD=./slowsync.so SYNC_DELAY_US=4000 SYNC_COUNTS=file some-server
 *
 * The sync itself is done first, then the calling thread sleeps; syncs of different threads overlap. Only
 * calls that go through the C library are caught: bench/compare checks that a commit has become slower. The file
 * SYNC_COUNTS has three numbers of eight bytes: syncs of the engine's log, of the binary log, of all else. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LOG, BINLOG, OTHER, KINDS };
static struct timespec delay;
static unsigned long long *counts;

__attribute__((constructor)) static void prepare(void) {
    const char *text = getenv("SYNC_DELAY_US"), *file = getenv("SYNC_COUNTS");
    long micros = text ? atol(text) : 0;
    delay.tv_sec = micros / 1000000;
    delay.tv_nsec = micros % 1000000 * 1000;
    int fd = file ? open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd < 0)
        return;
    size_t size = KINDS * sizeof *counts;
    if (ftruncate(fd, (off_t)size) == 0) {
        void *place = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        counts = place == MAP_FAILED ? NULL : place;
    }
    close(fd);
}

/* By the name that Esker, InnoDB and MySQL give their files. */
static int kind(int fd) {
    char link[32], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    if (strstr(name, ".wal") || strncmp(name, "ib_logfile", 10) == 0 || strncmp(name, "#ib_redo", 8) == 0)
        return LOG;
    return strncmp(name, "binlog.0", 8) == 0 ? BINLOG : OTHER;
}

static int longer(long call, int fd) {
    int result = (int)syscall(call, fd);
    int error = errno;
    if (counts)
        __atomic_fetch_add(&counts[kind(fd)], 1, __ATOMIC_RELAXED);
    if (delay.tv_sec || delay.tv_nsec)
        clock_nanosleep(CLOCK_MONOTONIC, 0, &delay, NULL);
    errno = error;
    return result;
}

int fsync(int fd) { return longer(SYS_fsync, fd); }
int fdatasync(int fd) { return longer(SYS_fdatasync, fd); }
