/* SPDX-License-Identifier: Apache-2.0 */
#include "net/process.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "base/secret.h"
#include "base/state_machine.h"

enum { DRAIN_MS = 500, HANDLES = 4 };

/*
 * RUNNING --exit--> DRAINING --both pipes ended, or 500 ms--> CLOSING --all closed--> callback
 *    |                  `--too much, cancel-----------------> CLOSING
 *    `--timeout, too much, cancel--> KILLED --exit----------> CLOSING
 *
 * A program that left something running behind it, which holds the pipes, is not waited for.
 */
enum phase { RUNNING, KILLED, DRAINING, CLOSING };

static const struct state_machine phases = {
    .object = "child process",
    .states = {[RUNNING] = {"Running", STATE(KILLED) | STATE(DRAINING) | STATE(CLOSING)},
               [KILLED] = {"Killed", STATE(CLOSING)},
               [DRAINING] = {"Draining", STATE(CLOSING)},
               [CLOSING] = {"Closing", 0}},
};

struct process {
    uv_process_t handle;
    uv_pipe_t out;
    uv_pipe_t err;
    uv_timer_t timer;
    enum phase phase;
    int open;    /* handles that are not yet closed */
    int reading; /* pipes that have not ended */
    struct buf out_buf;
    struct buf err_buf;
    char chunk[4096];
    struct process_result result;
    process_done_cb cb; /* NULL: it did not start */
    void *data;
};

static void set_phase(struct process *p, enum phase next)
{
    p->phase = state_change(&phases, p->phase, next, SLICE(""));
}

static void free_process(struct process *p)
{
    explicit_bzero(p->chunk, sizeof p->chunk);
    secret_buf_reset(&p->out_buf);
    secret_buf_reset(&p->err_buf);
    free(p);
}

static struct slice content(const struct buf *b)
{
    return slice_of(b->len == 0 ? "" : (const char *)buf_data(b), b->len);
}

static void on_closed(uv_handle_t *handle)
{
    struct process *p = handle->data;
    if (--p->open > 0) {
        return;
    }
    if (p->cb != NULL) {
        p->result.out = content(&p->out_buf);
        p->result.err = content(&p->err_buf);
        p->cb(p->data, &p->result);
    }
    free_process(p);
}

static void close_all(struct process *p)
{
    set_phase(p, CLOSING);
    uv_close((uv_handle_t *)&p->handle, on_closed);
    uv_close((uv_handle_t *)&p->out, on_closed);
    uv_close((uv_handle_t *)&p->err, on_closed);
    uv_close((uv_handle_t *)&p->timer, on_closed);
}

/* Ends it for the reason `code`, which the callback is told. */
static void end_early(struct process *p, int code)
{
    if (p->phase == RUNNING) {
        p->result.code = code;
        set_phase(p, KILLED);
        /* It leads its process group, and is not reaped yet: the number is still its own. */
        if (kill(-uv_process_get_pid(&p->handle), SIGKILL) != 0) {
            (void)uv_process_kill(&p->handle, SIGKILL);
        }
    } else if (p->phase == DRAINING) {
        p->result.code = code;
        close_all(p);
    }
}

static void on_drain_timeout(uv_timer_t *timer)
{
    close_all(timer->data);
}

static void on_timeout(uv_timer_t *timer)
{
    end_early(timer->data, -ETIMEDOUT);
}

static void on_exit_of_child(uv_process_t *handle, int64_t status, int signal)
{
    struct process *p = handle->data;
    p->result.exit_status = (int)status;
    p->result.signal = signal;
    if (p->phase == KILLED || p->reading == 0) {
        close_all(p);
        return;
    }
    set_phase(p, DRAINING);
    (void)uv_timer_start(&p->timer, on_drain_timeout, DRAIN_MS, 0);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    struct process *p = handle->data;
    (void)suggested;
    *out = uv_buf_init(p->chunk, sizeof p->chunk);
}

static void keep_output(struct process *p, uv_stream_t *pipe, size_t len)
{
    if (pipe == (uv_stream_t *)&p->out) {
        int rc = buf_append(&p->out_buf, p->chunk, len);
        if (rc != 0) {
            end_early(p, rc);
        }
        return;
    }
    size_t room = p->err_buf.max - p->err_buf.len;
    int rc = buf_append(&p->err_buf, p->chunk, len < room ? len : room);
    (void)rc; /* what is lost of the diagnostics is not worth an end */
}

static void on_read(uv_stream_t *pipe, ssize_t n, const uv_buf_t *buf)
{
    struct process *p = pipe->data;
    (void)buf;
    if (p->phase == CLOSING || n == 0) {
        return;
    }
    if (n > 0) {
        keep_output(p, pipe, (size_t)n);
        return;
    }
    (void)uv_read_stop(pipe);
    p->reading--;
    if (n != UV_EOF) {
        end_early(p, (int)n);
    } else if (p->reading == 0 && p->phase == DRAINING) {
        close_all(p);
    }
}

static struct process *init(uv_loop_t *loop, const struct process_options *o, process_done_cb cb,
                            void *data)
{
    struct process *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return NULL;
    }
    buf_init(&p->out_buf, o->output_max);
    buf_init(&p->err_buf, PROCESS_STDERR_MAX);
    /* Output may be secret: one piece from the start, so that growing leaves no copies. */
    if (buf_reserve(&p->out_buf, o->output_max) == NULL) {
        free(p);
        return NULL;
    }
    p->cb = cb;
    p->data = data;
    p->open = HANDLES;
    p->reading = 2;
    /* None of these three can fail: they only set up memory. */
    (void)uv_pipe_init(loop, &p->out, 0);
    (void)uv_pipe_init(loop, &p->err, 0);
    (void)uv_timer_init(loop, &p->timer);
    p->handle.data = p;
    p->out.data = p;
    p->err.data = p;
    p->timer.data = p;
    return p;
}

static int spawn(uv_loop_t *loop, struct process *p, const struct process_options *o)
{
    uv_stdio_container_t stdio[3] = {
        {.flags = UV_IGNORE},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&p->out},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&p->err},
    };
    uv_process_options_t options = {
        .exit_cb = on_exit_of_child,
        .file = o->argv[0],
        .args = (char **)o->argv,
        .env = (char **)o->env,
        .flags = UV_PROCESS_DETACHED,
        .stdio_count = 3,
        .stdio = stdio,
    };
    return uv_spawn(loop, &p->handle, &options);
}

int process_run(uv_loop_t *loop, const struct process_options *o, process_done_cb cb, void *data,
                struct process **out, struct err *e)
{
    struct process *p = init(loop, o, cb, data);
    if (p == NULL) {
        return err_set(e, -ENOMEM, "%s: out of memory", o->argv[0]);
    }
    int rc = spawn(loop, p, o);
    if (rc != 0) {
        p->cb = NULL;
        close_all(p);
        return err_set(e, rc, "cannot run %.200s: %s", o->argv[0], err_text(rc));
    }
    (void)uv_timer_start(&p->timer, on_timeout, o->timeout_ms, 0);
    rc = uv_read_start((uv_stream_t *)&p->out, on_alloc, on_read);
    if (rc == 0) {
        rc = uv_read_start((uv_stream_t *)&p->err, on_alloc, on_read);
    }
    if (rc != 0) {
        end_early(p, rc); /* the callback tells */
    }
    *out = p;
    return 0;
}

void process_cancel(struct process *p)
{
    end_early(p, -ECANCELED);
}
