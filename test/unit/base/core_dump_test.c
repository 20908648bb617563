/* SPDX-License-Identifier: Apache-2.0 */
#include "base/core_dump.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/array.h"

#ifdef CMESH_SANITIZED
#include <sanitizer/lsan_interface.h>
#endif

enum { NOBODY = 65534 };

/* Both processes are of one user who has no capabilities; changing the user made them secret. */
static void become_user(bool forbid)
{
    if (getuid() == 0 &&
        (setresgid(NOBODY, NOBODY, NOBODY) != 0 || setresuid(NOBODY, NOBODY, NOBODY) != 0)) {
        _exit(70);
    }
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0) {
        _exit(71);
    }
    if (forbid) {
        core_dump_forbid();
    }
}

/* A child that waits to be looked at, or does `work`. */
static pid_t start(bool forbid, void (*work)(void))
{
    int ready[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    (void)fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        become_user(forbid);
        (void)close(ready[0]);
        (void)!write(ready[1], "", 1);
        (void)close(ready[1]);
        (void)alarm(60);
        work();
        _exit(0);
    }
    (void)close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    (void)close(ready[0]);
    return pid;
}

static int end(pid_t pid)
{
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void rest(void)
{
    (void)pause();
}

static pid_t looked_at;

static int count_openable(const char *process, const char *const *names, size_t count)
{
    int openable = 0;
    for (size_t i = 0; i < count; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "/proc/%s/%s", process, names[i]);
        openable += open(path, O_RDONLY | O_CLOEXEC) >= 0 ? 1 : 0;
    }
    return openable;
}

/* Exits with the number of files of the other process that it could open. */
static void look(void)
{
    static const char *const names[] = {"mem", "environ", "root/", "fd/", "maps"};
    char process[16];
    (void)snprintf(process, sizeof process, "%d", (int)looked_at);
    _exit(count_openable(process, names, ARRAY_LEN(names)));
}

static int count_open(bool forbid)
{
    looked_at = start(forbid, rest);
    int status = end(start(false, look));
    (void)kill(looked_at, SIGKILL);
    (void)end(looked_at);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void hides_memory_from_the_same_user(void **state)
{
    (void)state;
    assert_int_equal(count_open(false), 5);
    assert_int_equal(count_open(true), 0);
}

/* What the programs open of their own: for metrics, their sockets, mounts and /dev/stdout. */
static void look_at_self(void)
{
    static const char *const names[] = {"statm", "net/tcp", "fd/", "mountinfo", "fd/0"};
    char target[64];
    int open_count = count_openable("self", names, ARRAY_LEN(names));
    bool named = readlink("/proc/self/fd/0", target, sizeof target) > 0;
    _exit(open_count + (named ? 1 : 0));
}

static void does_not_hide_a_process_from_itself(void **state)
{
    (void)state;
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(null >= 0 && dup2(null, STDIN_FILENO) == STDIN_FILENO);
    (void)close(null);
    int status = end(start(true, look_at_self));
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 6);
}

static void tell_limit(void)
{
    struct rlimit limit;
    bool none = getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_cur == 0 && limit.rlim_max == 0;
    _exit(none && prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0 ? 0 : 1);
}

static void leaves_no_core(void **state)
{
    (void)state;
    assert_int_equal(end(start(true, tell_limit)), 0);
}

#ifdef CMESH_SANITIZED
static void *volatile lost;

/* Many: a register or an old stack frame may still point to the last one. */
static void leak(void)
{
    for (int i = 0; i < 64; i++) {
        lost = malloc(100);
    }
    lost = NULL;
    _exit(__lsan_do_recoverable_leak_check() != 0 ? 0 : 1);
}

/* LeakSanitizer attaches to the process that it looks at. */
static void leaks_are_found_all_the_same(void **state)
{
    (void)state;
    assert_int_equal(end(start(true, leak)), 0);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hides_memory_from_the_same_user),
        cmocka_unit_test(does_not_hide_a_process_from_itself),
        cmocka_unit_test(leaves_no_core),
#ifdef CMESH_SANITIZED
        cmocka_unit_test(leaks_are_found_all_the_same),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
