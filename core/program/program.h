/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program.h - what every program with an event loop does around its parts: the loop's life,
 * signals, the ready file, the exit code.
 *
 *     opening --> running -- SIGTERM, SIGINT --> shutting down --> closing
 *
 * program_stop leads from each of these to closing, as does a second SIGTERM or SIGINT.
 */
#ifndef CORE_PROGRAM_PROGRAM_H
#define CORE_PROGRAM_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "net/loop.h"
#include "net/signal.h"

struct program_ops {
    /* Makes the parts. 0, or negative with `e` set: the program cannot start. */
    int (*open)(void *data, struct err *e);
    /* SIGTERM or SIGINT for the first time: leads to program_stop, at once or later. */
    void (*on_shutdown)(void *data);
    /* SIGHUP. NULL: it ends the process, as it does by default. */
    void (*on_reload)(void *data);
    /* Closes what open made, also when that failed half-way. What is to outlive the loop is
     * released after program_run. */
    void (*close)(void *data);
};

#define PROGRAM_SIGNALS 3

/* Visible to be embedded; all zero before program_run. */
struct program {
    struct net_loop *loop; /* for the parts: from open to close */
    const struct program_ops *ops;
    void *data;
    struct net_signal *signals[PROGRAM_SIGNALS];
    bool shutting_down;
    int exit_code;
};

/* Opens, runs until program_stop, closes. Returns the exit code: EXIT_FAILED when it could not
 * start or when a handle was left open, which is logged; else that of program_stop, and EXIT_DONE
 * when a second signal came first. SIGPIPE is ignored from here on. */
MUST_CHECK int program_run(struct program *p, const struct program_ops *ops, void *data);

/* Ends the loop after this turn; of several calls the last one's exit code counts. */
void program_stop(struct program *p, int exit_code);

/* Raises the soft limit of open files, often 1,024, to the hard one, and logs it: each connection
 * takes a descriptor. */
void program_raise_file_limit(void);
/* How many files may be open now; UINT64_MAX: any number, or it is not known. */
uint64_t program_file_limit(void);

/* Of the values of flags, while they are parsed: where to listen, and the path of a Unix socket
 * (NULL: none). 0, or negative with a message that begins with the flag. */
MUST_CHECK int program_check_address(const char *flag, const char *address, struct err *e);
MUST_CHECK int program_check_socket(const char *flag, const char *path, struct err *e);

/* How --help shows the default of --admin, and what it is: the pages are for the kubelet,
 * Prometheus and the manager in a pod, by its KUBERNETES_SERVICE_HOST, and for whoever is at the
 * machine elsewhere. */
#define PROGRAM_ADMIN_TEXT(port) "127.0.0.1:" port "; in a pod [::]:" port
#define PROGRAM_ADMIN(port) program_choose_address("[::]:" port, "127.0.0.1:" port)
const char *program_choose_address(const char *in_pod, const char *elsewhere);

/* Whether the file of --ready-file (NULL: none) could be written: before anything listens. 0, or
 * negative with `e` set. */
MUST_CHECK int program_check_ready_file(const char *path, struct err *e);

/* Where a part listens: "" if it does not. */
struct program_address {
    const char *name;
    const char *address;
};

/* Writes the file of --ready-file, a JSON object of names and addresses, in one step; a path of
 * NULL writes none. 0, or negative with `e` set. */
MUST_CHECK int program_write_ready_file(const char *path, const struct program_address *addresses,
                                        size_t count, struct err *e);

#endif
