/* A disk on which every sync takes DISK_MILLISECONDS, loaded in front of libc: so that a line forms which a person can watch. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void spin(void) {
    const char *text = getenv("DISK_MILLISECONDS");
    long milliseconds = text ? atol(text) : 0;
    struct timespec rest = {milliseconds / 1000, (milliseconds % 1000) * 1000000L};
    nanosleep(&rest, NULL);
}

int fdatasync(int file) { spin(); return (int)syscall(SYS_fdatasync, file); }
int fsync(int file) { spin(); return (int)syscall(SYS_fsync, file); }
