/* The wall clock of a process and of all that it starts, moved by an offset that another process changes meanwhile.

   LD_PRELOAD names this library, STEPPED_CLOCK a file of eight bytes: nanoseconds, signed. Monotonic clocks stay, and so
   do the times that the kernel writes into files. Whoever starts a program with an environment of its own (a Pod's)
   passes both names on all the same. tests/stepped_clock.py compiles it. */

#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
static const volatile int64_t *offset;
static const char *const NAMES[] = {"LD_PRELOAD=", "STEPPED_CLOCK="};
static char *passed[2]; /* both entries as this process got them */

__attribute__((constructor)) static void begin(void) {
    extern char **environ;
    for (char **entry = environ; entry && *entry; entry++)
        for (int i = 0; i < 2; i++)
            if (strncmp(*entry, NAMES[i], strlen(NAMES[i])) == 0) passed[i] = strdup(*entry);
    int file = passed[1] ? open(passed[1] + strlen(NAMES[1]), O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *at = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (at != MAP_FAILED) offset = at;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t moved = now->tv_sec * SECOND + now->tv_nsec + *offset;
        now->tv_sec = moved / SECOND;
        now->tv_nsec = moved % SECOND;
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (at) *at = precise.tv_sec;
    return precise.tv_sec;
}

/* The environment with both entries. On the stack of the caller: a fork may not allocate. */
#define WITH_CLOCK(environment, result)                                                          \
    do {                                                                                         \
        size_t count = 0;                                                                        \
        while ((environment) && (environment)[count]) count++;                                   \
        (result) = alloca((count + 3) * sizeof(char *));                                         \
        if (count) memcpy((result), (environment), count * sizeof(char *));                      \
        size_t end = count;                                                                      \
        for (int i = 0; i < 2; i++) {                                                            \
            size_t at = 0;                                                                       \
            while (at < count && strncmp((result)[at], NAMES[i], strlen(NAMES[i])) != 0) at++;   \
            if (at == count && passed[i]) (result)[end++] = passed[i];                           \
        }                                                                                        \
        (result)[end] = NULL;                                                                    \
    } while (0)

int execve(const char *path, char *const arguments[], char *const environment[]) {
    char **with;
    WITH_CLOCK(environment, with);
    return (int)syscall(SYS_execve, path, arguments, with);
}

int posix_spawn(pid_t *restrict pid, const char *restrict path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *restrict attributes, char *const arguments[restrict],
                char *const environment[restrict]) {
    int (*real)(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const[],
                char *const[]) = dlsym(RTLD_NEXT, "posix_spawn");
    char **with;
    WITH_CLOCK(environment, with);
    return real(pid, path, actions, attributes, arguments, with);
}
