/* Loaded in front of libc into a server of the tests.
 *
 * Power cut: whatever is written to the files of a database also counts as written, but only what has been synced is copied to a
 * shadow beside the file (NAME.synced). kill -9 and the shadows in place of the files are what a power cut leaves.
 * With SHIM_DEAF=1 the syncs of the log are not heard, as if the database had not asked for them.
 *
 * Clock: the wall clock is off by as many seconds as the file SHIM_CLOCK holds, read at every look; how often it was looked at while
 * off is counted in the same file. Monotonic time is left alone.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FILES = 8, RANGES = 65536 };

struct range { off_t from; size_t length; };
struct file {
    char path[512];
    struct range dirty[RANGES];
    size_t count;
};

static struct file files[FILES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* The file behind a descriptor, if it is one of a database. */
static struct file *known(int fd) {
    char link[64], path[512];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return NULL;
    path[length] = 0;
    const char *name = strrchr(path, '/');
    if (!name || (strcmp(name, "/maitred.db") && strcmp(name, "/maitred.db-wal"))) return NULL;
    for (int n = 0; n < FILES; n++) {
        if (!strcmp(files[n].path, path)) return &files[n];
        if (!files[n].path[0]) {
            strcpy(files[n].path, path);
            return &files[n];
        }
    }
    return NULL;
}

static void wrote(int fd, off_t from, ssize_t length) {
    if (length <= 0 || !getenv("SHIM_SYNC")) return;
    pthread_mutex_lock(&lock);
    struct file *file = known(fd);
    if (file) {
        if (file->count == RANGES) abort();
        file->dirty[file->count++] = (struct range){from, (size_t)length};
    }
    pthread_mutex_unlock(&lock);
}

/* What was written since the last time is safe now. */
static void synced(int fd) {
    if (!getenv("SHIM_SYNC")) return;
    pthread_mutex_lock(&lock);
    struct file *file = known(fd);
    if (file && !(getenv("SHIM_DEAF") && strstr(file->path, "-wal"))) {
        char shadow[600];
        snprintf(shadow, sizeof shadow, "%s.synced", file->path);
        int from = REAL(open)(file->path, O_RDONLY), to = REAL(open)(shadow, O_RDWR | O_CREAT, 0600);
        static char buffer[1 << 20];
        for (size_t n = 0; from >= 0 && to >= 0 && n < file->count; n++) {
            struct range range = file->dirty[n];
            while (range.length > 0) {
                size_t part = range.length < sizeof buffer ? range.length : sizeof buffer;
                ssize_t length = REAL(pread)(from, buffer, part, range.from);
                if (length <= 0 || REAL(pwrite)(to, buffer, (size_t)length, range.from) != length) break;
                range.from += length;
                range.length -= (size_t)length;
            }
        }
        struct stat stat;
        if (from >= 0 && to >= 0 && !fstat(from, &stat) && REAL(ftruncate)(to, stat.st_size)) abort();
        file->count = 0;
        close(from);
        close(to);
    }
    pthread_mutex_unlock(&lock);
}

ssize_t write(int fd, const void *bytes, size_t length) {
    off_t from = getenv("SHIM_SYNC") ? lseek(fd, 0, SEEK_CUR) : -1;
    ssize_t done = REAL(write)(fd, bytes, length);
    if (from >= 0) wrote(fd, from, done);
    return done;
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t from) {
    ssize_t done = REAL(pwrite)(fd, bytes, length, from);
    wrote(fd, from, done);
    return done;
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t from) {
    ssize_t done = REAL(pwrite64)(fd, bytes, length, from);
    wrote(fd, from, done);
    return done;
}

int fsync(int fd) {
    int done = REAL(fsync)(fd);
    if (!done) synced(fd);
    return done;
}

int fdatasync(int fd) {
    int done = REAL(fdatasync)(fd);
    if (!done) synced(fd);
    return done;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static __typeof__(&clock_gettime) real;
    static volatile int64_t *page;
    static int looked;
    if (!real) real = REAL(clock_gettime);
    int done = real(clock, now);
    if (clock != CLOCK_REALTIME) return done;
    if (!looked) {
        looked = 1;
        const char *path = getenv("SHIM_CLOCK");
        int fd = path ? REAL(open)(path, O_RDWR) : -1;
        void *mapped = fd >= 0 ? mmap(NULL, 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
        if (fd >= 0) close(fd);
        if (mapped != MAP_FAILED) page = mapped;
    }
    if (page && page[0]) {
        now->tv_sec += page[0];
        page[1]++;
    }
    return done;
}
