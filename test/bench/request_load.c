/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request_load - asks an HTTP proxy for one URL, at a steady rate or as often as it answers.
 *
 * Prints one line of JSON at each step, so that a script can sample the proxy in between:
 *
 *     {"phase":"measuring"}              the warm-up is over
 *     {"phase":"done","requests":…}      the figures of the time measured
 *
 * At a rate, latency counts from when a request was due, whether a connection was free then or
 * not. A connection that the proxy closes is opened again; a request that was sent just before that
 * is sent once more, and counted.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"
#include "base/flags.h"
#include "event.h"
#include "latency.h"
#include "response.h"

enum { MAX_READY = 256, INPUT_MAX = 65536, REQUEST_MAX = 2048 };

struct load;

struct slot {
    struct load *load;
    int fd;         /* negative: not connected */
    bool connected; /* else the connection is being made */
    bool asking;
    bool fresh; /* nothing was asked on this connection before */
    uint64_t due;
    struct response response;
};

struct load {
    int epoll;
    struct sockaddr_in address;
    char request[REQUEST_MAX];
    size_t request_len;
    struct slot *slots;
    size_t count;
    uint64_t rate; /* requests a second; 0: as many as can be */
    uint64_t begun;
    uint64_t issued;
    uint64_t now;
    uint64_t connections; /* since measuring began, like the next */
    uint64_t repeated;
    uint64_t bytes;
    struct latency latency;
};

static int watch_events(struct slot *s, int how, uint32_t events, struct err *e)
{
    struct epoll_event ev = {.events = events, .data.ptr = s};
    return epoll_ctl(s->load->epoll, how, s->fd, &ev) == 0
               ? 0
               : err_set(e, -errno, "epoll_ctl: %s", err_text(-errno));
}

static int slot_connect(struct slot *s, struct err *e)
{
    struct load *l = s->load;
    s->connected = false;
    s->fresh = true;
    l->connections++;
    s->fd = address_connect(&l->address);
    if (s->fd < 0) {
        return err_set(e, s->fd, "cannot connect: %s", err_text(s->fd));
    }
    return watch_events(s, EPOLL_CTL_ADD, EPOLLOUT, e);
}

static int slot_send(struct slot *s, struct err *e)
{
    response_init(&s->response);
    ssize_t n = send(s->fd, s->load->request, s->load->request_len, MSG_NOSIGNAL);
    if (n == (ssize_t)s->load->request_len || (n < 0 && !s->fresh)) {
        return 0; /* one that was closed is seen when it is read */
    }
    return err_set(e, -EPIPE, "cannot send a request: %s", err_text(-errno));
}

static void slot_close(struct slot *s)
{
    (void)close(s->fd);
    s->fd = -1;
}

static int slot_ask(struct slot *s, uint64_t due, struct err *e)
{
    s->asking = true;
    s->due = due;
    return s->fd < 0 ? slot_connect(s, e) : slot_send(s, e);
}

static int on_body(void *arg, const char *data, size_t len, struct err *e)
{
    struct slot *s = arg;
    (void)data;
    (void)e;
    s->load->bytes += len;
    return 0;
}

static int slot_closed(struct slot *s, struct err *e)
{
    slot_close(s);
    if (!s->asking) {
        return 0;
    }
    if (s->fresh || s->response.head_len > 0) {
        return err_set(e, -ECONNRESET, "a connection was closed before its answer");
    }
    s->load->repeated++;
    return slot_connect(s, e);
}

static int slot_answered(struct slot *s, struct err *e)
{
    struct load *l = s->load;
    if (s->response.status != 200) {
        return err_set(e, -EPROTO, "answered %.*s", (int)strcspn(s->response.head, "\r"),
                       s->response.head);
    }
    latency_add(&l->latency, l->now > s->due ? l->now - s->due : 0);
    s->asking = false;
    s->fresh = false;
    if (s->response.closes) {
        slot_close(s);
    }
    return 0;
}

static int slot_read(struct slot *s, struct err *e)
{
    static char input[INPUT_MAX];
    ssize_t n = recv(s->fd, input, sizeof input, 0);
    s->load->now = now_ns();
    if (n <= 0) {
        return n < 0 && errno == EAGAIN ? 0 : slot_closed(s, e);
    }
    const char *data = input;
    while (n > 0) {
        ssize_t taken = response_feed(&s->response, data, (size_t)n, on_body, s, e);
        if (taken <= 0) {
            return taken < 0 ? (int)taken : err_set(e, -EPROTO, "bytes behind an answer");
        }
        data += taken;
        n -= taken;
    }
    return s->asking && s->response.state == RESPONSE_DONE ? slot_answered(s, e) : 0;
}

static int slot_connected(struct slot *s, struct err *e)
{
    int code = 0;
    socklen_t len = sizeof code;
    (void)getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &code, &len);
    if (code != 0) {
        return err_set(e, -code, "cannot connect: %s", err_text(-code));
    }
    s->connected = true;
    int rc = watch_events(s, EPOLL_CTL_MOD, EPOLLIN, e);
    return rc == 0 ? slot_send(s, e) : rc;
}

/* When the request of that number is due. */
static uint64_t due_of(const struct load *l, uint64_t number)
{
    return l->rate == 0 ? l->now : l->begun + number * NSEC_PER_SEC / l->rate;
}

/* *next: when there is something to do again. */
static int issue(struct load *l, uint64_t *next, struct err *e)
{
    l->now = now_ns();
    for (size_t i = 0; i < l->count; i++) {
        uint64_t due = due_of(l, l->issued);
        if (l->slots[i].asking) {
            continue;
        }
        if (due > l->now) {
            *next = due < *next ? due : *next;
            return 0;
        }
        l->issued++;
        int rc = slot_ask(&l->slots[i], due, e);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

static int run_until(struct load *l, uint64_t deadline, struct err *e)
{
    struct epoll_event ready[MAX_READY];
    for (uint64_t now = now_ns(); now < deadline; now = now_ns()) {
        uint64_t next = deadline;
        int rc = issue(l, &next, e);
        uint64_t wait = next > l->now ? next - l->now : 0;
        const struct timespec ts = {.tv_sec = (time_t)(wait / NSEC_PER_SEC),
                                    .tv_nsec = (long)(wait % NSEC_PER_SEC)};
        int n = rc == 0 ? epoll_pwait2(l->epoll, ready, MAX_READY, &ts, NULL) : 0;
        for (int i = 0; i < n && rc == 0; i++) {
            struct slot *s = ready[i].data.ptr;
            rc = s->connected ? slot_read(s, e) : slot_connected(s, e);
        }
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

static void print_result(const struct load *l, uint64_t elapsed)
{
    const struct latency *t = &l->latency;
    printf("{\"phase\":\"done\",\"seconds\":%.6f,\"requests\":%" PRIu64 ",\"bytes\":%" PRIu64
           ",\"connections\":%" PRIu64 ",\"repeated\":%" PRIu64 ",\"p50_us\":%" PRIu64
           ",\"p99_us\":%" PRIu64 ",\"max_us\":%" PRIu64 "}\n",
           (double)elapsed / (double)NSEC_PER_SEC, t->count, l->bytes, l->connections, l->repeated,
           latency_percentile(t, 50), latency_percentile(t, 99), t->slowest / NSEC_PER_USEC);
    (void)fflush(stdout);
}

static int run(struct load *l, uint64_t warmup_ms, uint64_t measure_ms, struct err *e)
{
    const uint64_t ms = NSEC_PER_SEC / 1000;
    l->begun = now_ns();
    int rc = run_until(l, l->begun + warmup_ms * ms, e);
    if (rc != 0) {
        return rc;
    }
    printf("{\"phase\":\"measuring\"}\n");
    (void)fflush(stdout);
    uint64_t begun = now_ns();
    l->connections = l->repeated = l->bytes = 0;
    memset(&l->latency, 0, sizeof l->latency);
    rc = run_until(l, begun + measure_ms * ms, e);
    if (rc == 0) {
        print_result(l, now_ns() - begun);
    }
    return rc;
}

struct arguments {
    struct flags_common common;
    const char *address;
    const char *url;
    uint64_t connections;
    uint64_t rate;
    uint64_t warmup_ms;
    uint64_t measure_ms;
};

static int load_init(struct load *l, const struct arguments *f, struct err *e)
{
    const char *host = f->url != NULL ? strstr(f->url, "://") : NULL;
    if (f->address == NULL || address_parse(f->address, &l->address) != 0 || host == NULL) {
        return err_set(e, -EINVAL, "--connect ADDR:PORT or --url is missing or invalid");
    }
    host += 3;
    int n = snprintf(l->request, sizeof l->request,
                     "GET %s HTTP/1.1\r\nHost: %.*s\r\nUser-Agent: operator/v1 (linux/amd64)\r\n"
                     "Accept: application/json\r\n\r\n",
                     f->url, (int)strcspn(host, "/"), host);
    if (n < 0 || (size_t)n >= sizeof l->request) {
        return err_set(e, -EINVAL, "--url is too long");
    }
    l->request_len = (size_t)n;
    l->rate = f->rate;
    l->count = f->connections;
    l->slots = calloc(l->count, sizeof *l->slots);
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (l->slots == NULL || l->epoll < 0) {
        return err_memory(e);
    }
    for (size_t i = 0; i < l->count; i++) {
        l->slots[i] = (struct slot){.load = l, .fd = -1};
    }
    return 0;
}

static const struct flag table[] = {
    {.name = "connect",
     .value = "ADDR:PORT",
     .help = "The proxy.",
     FLAG_STRING_AT(struct arguments, address)},
    {.name = "url",
     .value = "URL",
     .help = "What is asked for, in absolute form.",
     FLAG_STRING_AT(struct arguments, url)},
    {.name = "connections",
     .value = "N",
     .help = "Connections; at full load as many requests are under way.",
     FLAG_UINT_AT(struct arguments, connections),
     .min = 1,
     .max = 4096},
    {.name = "rate",
     .value = "N",
     .help = "Requests a second; 0: as many as are answered.",
     FLAG_UINT_AT(struct arguments, rate),
     .max = 1000000},
    {.name = "warmup",
     .value = "MS",
     .help = "Milliseconds before the first request that counts.",
     FLAG_UINT_AT(struct arguments, warmup_ms),
     .max = 600000},
    {.name = "measure",
     .value = "MS",
     .help = "Milliseconds to measure.",
     FLAG_UINT_AT(struct arguments, measure_ms),
     .max = 600000},
    FLAGS_COMMON(struct arguments, common),
    {0},
};

static const struct command command = {
    .program = "request_load",
    .summary = "asks an HTTP proxy for a URL and measures the answers' latency",
    .usage = "--connect ADDR:PORT --url URL [FLAG ...]",
    .flags = table,
};

int main(int argc, char **argv)
{
    static struct load l;
    struct arguments f = {.connections = 32, .warmup_ms = 500, .measure_ms = 3000};
    struct err e = ERR_INIT;
    (void)flags_parse_or_exit(&command, &f, &f.common, argc, argv);
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    if (load_init(&l, &f, &e) != 0 || run(&l, f.warmup_ms, f.measure_ms, &e) != 0) {
        (void)fprintf(stderr, "request_load: %s\n", e.msg);
        return EXIT_FAILED;
    }
    return EXIT_DONE;
}
