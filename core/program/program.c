/* SPDX-License-Identifier: Apache-2.0 */
#include "program/program.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/file.h"
#include "base/flags.h"
#include "base/log.h"
#include "crypto/tls.h"
#include "net/address.h"
#include "net/socket_file.h"
#include "json/json.h"

enum { READY_FILE_MAX = 4096 };

static void on_signal(void *data, int signum)
{
    struct program *p = data;
    if (signum == SIGHUP) {
        p->ops->on_reload(p->data);
        return;
    }
    if (p->shutting_down) {
        log_warn("received a second signal, stopping at once");
        net_loop_stop(p->loop);
        return;
    }
    if (signum == SIGTERM) {
        log_info("received SIGTERM, shutting down");
    } else {
        log_info("received SIGINT, shutting down");
    }
    p->shutting_down = true;
    p->ops->on_shutdown(p->data);
}

static int watch_signals(struct program *p, struct err *e)
{
    static const int numbers[PROGRAM_SIGNALS] = {SIGTERM, SIGINT, SIGHUP};
    for (size_t i = 0; i < PROGRAM_SIGNALS; i++) {
        if (numbers[i] == SIGHUP && p->ops->on_reload == NULL) {
            continue;
        }
        p->signals[i] = net_signal_new(p->loop, numbers[i], on_signal, p, e);
        if (p->signals[i] == NULL) {
            return e->code;
        }
    }
    return 0;
}

void program_raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return;
    }
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    if (before < limit.rlim_max && setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        log_warn("cannot raise the limit of open files", log_num("limit", (int64_t)before),
                 log_str("error", err_text(-errno)));
        return;
    }
    log_debug("limit of open files", log_num("limit", (int64_t)limit.rlim_cur));
}

uint64_t program_file_limit(void)
{
    struct rlimit limit;
    bool known = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    return known ? limit.rlim_cur : UINT64_MAX;
}

static void fail_to_start(struct program *p, const struct err *e)
{
    log_error("cannot start", log_str("error", e->msg));
    p->exit_code = EXIT_FAILED;
}

int program_run(struct program *p, const struct program_ops *ops, void *data)
{
    struct err e = ERR_INIT;
    (void)signal(SIGPIPE, SIG_IGN);
    tls_tune_memory();
    *p = (struct program){.ops = ops, .data = data, .exit_code = EXIT_DONE};
    p->loop = net_loop_new(&e);
    if (p->loop == NULL) {
        fail_to_start(p, &e);
        return p->exit_code;
    }
    if (watch_signals(p, &e) == 0 && ops->open(data, &e) == 0) {
        net_loop_run(p->loop);
    } else {
        fail_to_start(p, &e);
    }
    ops->close(data);
    for (size_t i = 0; i < PROGRAM_SIGNALS; i++) {
        net_signal_free(p->signals[i]);
    }
    if (net_loop_free(p->loop) != 0) {
        p->exit_code = EXIT_FAILED;
    }
    return p->exit_code;
}

void program_stop(struct program *p, int exit_code)
{
    p->exit_code = exit_code;
    net_loop_stop(p->loop);
}

const char *program_choose_address(const char *in_pod, const char *elsewhere)
{
    return getenv("KUBERNETES_SERVICE_HOST") != NULL ? in_pod : elsewhere;
}

int program_check_address(const char *flag, const char *address, struct err *e)
{
    int rc = net_address_check(address, e);
    if (rc != 0) {
        err_prefix(e, "%s", flag);
    }
    return rc;
}

int program_check_socket(const char *flag, const char *path, struct err *e)
{
    int rc = path == NULL ? 0 : socket_file_check(path, e);
    if (rc != 0) {
        err_prefix(e, "%s", flag);
    }
    return rc;
}

int program_check_ready_file(const char *path, struct err *e)
{
    int rc = path == NULL ? 0 : file_check_writable(path, e);
    if (rc != 0) {
        err_prefix(e, "--ready-file");
    }
    return rc;
}

int program_write_ready_file(const char *path, const struct program_address *addresses,
                             size_t count, struct err *e)
{
    struct buf text = BUF_INIT(READY_FILE_MAX);
    if (path == NULL) {
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        (void)buf_append_char(&text, i == 0 ? '{' : ',');
        (void)buf_fail(&text, json_quote(addresses[i].name, &text));
        (void)buf_append_char(&text, ':');
        (void)buf_fail(&text, json_quote(addresses[i].address, &text));
    }
    (void)buf_append_str(&text, "}\n");
    int rc = buf_error(&text);
    if (rc == 0) {
        rc = file_replace(path, buf_data(&text), text.len, 0644, e); /* it outlives no start */
    } else {
        (void)err_set(e, rc, "%s", err_text(rc));
    }
    if (rc != 0) {
        err_prefix(e, "--ready-file");
    }
    buf_reset(&text);
    return rc;
}
