/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tunnel_load - opens tunnels through an HTTP proxy to a server that sends back all that it gets,
 * and either keeps them, with a message on each once a second, or opens one after the other.
 *
 * Prints one line of JSON at each step, so that a script can sample the proxy in between:
 *
 *     {"phase":"open","tunnels":100}     all are open, and nothing was sent for a while
 *     {"phase":"measuring"}              the warm-up is over
 *     {"phase":"done","messages":…}      the figures of the time measured
 *
 * Latency is from the sending of a message to the return of the read that brought its last byte
 * back; where tunnels are opened one after the other, from the beginning of the connection to the
 * proxy's answer.
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

enum {
    MAX_READY = 256,
    MAX_OPENING = 64, /* tunnels that wait for the proxy's answer at a time, where they are kept */
    OPEN_LIMIT_SECONDS = 120,
    INPUT_MAX = 65536,
    REQUEST_MAX = 512,
    MESSAGE_MAX = 16384,
    HEAD_MAX = 512,
};

/* CONNECTING -> ASKING -> OPEN -> CLOSED */
enum tunnel_state { TUNNEL_CLOSED, TUNNEL_CONNECTING, TUNNEL_ASKING, TUNNEL_OPEN };

struct load;

struct tunnel {
    struct load *load;
    int fd;
    enum tunnel_state state;
    uint64_t since;  /* the connection was begun, or the message sent */
    size_t back;     /* bytes of the message that have come back */
    bool under_way;  /* a message is */
    size_t head_len; /* of the proxy's answer */
    char head[HEAD_MAX];
};

struct load {
    int epoll;
    struct sockaddr_in address;
    char request[REQUEST_MAX];
    size_t request_len;
    char message[MESSAGE_MAX];
    size_t message_len;
    struct tunnel *tunnels;
    size_t count;
    bool cycle; /* tunnels are closed after one message, and others opened */
    size_t started;
    size_t open;
    bool sending;
    uint64_t begun;  /* sending */
    uint64_t issued; /* messages since then */
    uint64_t now;
    uint64_t opened; /* since measuring began, like the next */
    uint64_t late;   /* messages that were not sent because the one before was not back */
    struct latency latency;
};

static int fail(struct err *e, int code, const char *doing)
{
    return err_set(e, -code, "%s: %s", doing, err_text(-code));
}

static int tunnel_start(struct tunnel *t, struct err *e)
{
    struct load *l = t->load;
    struct epoll_event ev = {.events = EPOLLOUT, .data.ptr = t};
    t->state = TUNNEL_CONNECTING;
    t->since = now_ns();
    t->head_len = t->back = 0;
    t->under_way = false;
    t->fd = address_connect(&l->address);
    if (t->fd < 0) {
        return fail(e, -t->fd, "cannot connect");
    }
    return epoll_ctl(l->epoll, EPOLL_CTL_ADD, t->fd, &ev) == 0 ? 0 : fail(e, errno, "epoll_ctl");
}

static int tunnel_ask(struct tunnel *t, struct err *e)
{
    struct load *l = t->load;
    int code = 0;
    socklen_t len = sizeof code;
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = t};
    (void)getsockopt(t->fd, SOL_SOCKET, SO_ERROR, &code, &len);
    if (code != 0) {
        return fail(e, code, "cannot connect");
    }
    t->state = TUNNEL_ASKING;
    if (epoll_ctl(l->epoll, EPOLL_CTL_MOD, t->fd, &ev) != 0 ||
        send(t->fd, l->request, l->request_len, MSG_NOSIGNAL) != (ssize_t)l->request_len) {
        return fail(e, errno, "cannot ask for a tunnel");
    }
    return 0;
}

static int tunnel_send(struct tunnel *t, struct err *e)
{
    struct load *l = t->load;
    t->under_way = true;
    t->back = 0;
    if (send(t->fd, l->message, l->message_len, MSG_NOSIGNAL) != (ssize_t)l->message_len) {
        return fail(e, errno, "cannot send a message");
    }
    return 0;
}

static int tunnel_opened(struct tunnel *t, struct err *e)
{
    struct load *l = t->load;
    if (strncmp(t->head, "HTTP/1.", 7) != 0 || strncmp(t->head + 8, " 2", 2) != 0) {
        return err_set(e, -EPROTO, "answered %.*s", (int)strcspn(t->head, "\r"), t->head);
    }
    t->state = TUNNEL_OPEN;
    l->open++;
    l->opened++;
    if (!l->cycle) {
        return 0;
    }
    latency_add(&l->latency, l->now - t->since);
    return tunnel_send(t, e);
}

/* The proxy's answer; nothing follows before a message was sent. */
static int read_answer(struct tunnel *t, const char *data, size_t len, struct err *e)
{
    if (len >= HEAD_MAX - t->head_len) {
        return err_set(e, -EMSGSIZE, "the answer is too long");
    }
    memcpy(t->head + t->head_len, data, len);
    t->head_len += len;
    t->head[t->head_len] = '\0';
    const char *end = strstr(t->head, "\r\n\r\n");
    if (end == NULL) {
        return 0;
    }
    return end[4] == '\0' ? tunnel_opened(t, e) : err_set(e, -EPROTO, "bytes behind the answer");
}

static int message_is_back(struct tunnel *t, struct err *e)
{
    struct load *l = t->load;
    t->under_way = false;
    if (!l->cycle) {
        latency_add(&l->latency, l->now - t->since);
        return 0;
    }
    (void)close(t->fd);
    l->open--;
    return tunnel_start(t, e);
}

static int read_message(struct tunnel *t, const char *data, size_t len, struct err *e)
{
    struct load *l = t->load;
    if (!t->under_way || len > l->message_len - t->back ||
        memcmp(l->message + t->back, data, len) != 0) {
        return err_set(e, -EPROTO, "what came back is not what was sent");
    }
    t->back += len;
    return t->back == l->message_len ? message_is_back(t, e) : 0;
}

static int tunnel_read(struct tunnel *t, struct err *e)
{
    static char input[INPUT_MAX];
    ssize_t n = recv(t->fd, input, sizeof input, 0);
    t->load->now = now_ns();
    if (n <= 0) {
        return n < 0 && errno == EAGAIN ? 0 : err_set(e, -ECONNRESET, "a tunnel was closed");
    }
    return t->state == TUNNEL_OPEN ? read_message(t, input, (size_t)n, e)
                                   : read_answer(t, input, (size_t)n, e);
}

static int start_more(struct load *l, struct err *e)
{
    while (l->started < l->count && (l->cycle || l->started - l->open < MAX_OPENING)) {
        int rc = tunnel_start(&l->tunnels[l->started++], e);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

/* All that is due; one message each second on each tunnel, evenly spread. *next: the one after. */
static int send_due(struct load *l, uint64_t *next, struct err *e)
{
    for (;;) {
        uint64_t due = l->begun + l->issued * NSEC_PER_SEC / l->count;
        if (due > l->now) {
            *next = due < *next ? due : *next;
            return 0;
        }
        struct tunnel *t = &l->tunnels[l->issued++ % l->count];
        if (t->under_way) {
            l->late++;
            continue;
        }
        t->since = now_ns();
        int rc = tunnel_send(t, e);
        if (rc != 0) {
            return rc;
        }
    }
}

static int handle(struct load *l, uint64_t until, struct err *e)
{
    struct epoll_event ready[MAX_READY];
    uint64_t wait = until > l->now ? until - l->now : 0;
    const struct timespec ts = {.tv_sec = (time_t)(wait / NSEC_PER_SEC),
                                .tv_nsec = (long)(wait % NSEC_PER_SEC)};
    int n = epoll_pwait2(l->epoll, ready, MAX_READY, &ts, NULL);
    for (int i = 0; i < n; i++) {
        struct tunnel *t = ready[i].data.ptr;
        int rc = t->state == TUNNEL_CONNECTING ? tunnel_ask(t, e) : tunnel_read(t, e);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

/* Until the deadline; with `opening` until all are open, which it is an error not to reach. */
static int run_until(struct load *l, uint64_t deadline, bool opening, struct err *e)
{
    while ((l->now = now_ns()) < deadline) {
        uint64_t next = deadline;
        int rc = start_more(l, e);
        if (opening && l->open == l->count) {
            return rc;
        }
        if (rc == 0 && l->sending) {
            rc = send_due(l, &next, e);
        }
        if (rc == 0) {
            rc = handle(l, next, e);
        }
        if (rc != 0) {
            return rc;
        }
    }
    return opening ? err_set(e, -ETIMEDOUT, "%zu of %zu tunnels were opened in %d s", l->open,
                             l->count, OPEN_LIMIT_SECONDS)
                   : 0;
}

static void say(const char *phase)
{
    printf("{\"phase\":\"%s\"}\n", phase);
    (void)fflush(stdout);
}

static void print_result(const struct load *l, uint64_t elapsed)
{
    const struct latency *t = &l->latency;
    printf("{\"phase\":\"done\",\"tunnels\":%zu,\"seconds\":%.6f,\"opened\":%" PRIu64
           ",\"messages\":%" PRIu64 ",\"late\":%" PRIu64 ",\"p50_us\":%" PRIu64
           ",\"p99_us\":%" PRIu64 ",\"max_us\":%" PRIu64 "}\n",
           l->open, (double)elapsed / (double)NSEC_PER_SEC, l->opened, l->cycle ? 0 : t->count,
           l->late, latency_percentile(t, 50), latency_percentile(t, 99),
           t->slowest / NSEC_PER_USEC);
    (void)fflush(stdout);
}

static int open_all(struct load *l, uint64_t hold, struct err *e)
{
    int rc = run_until(l, now_ns() + OPEN_LIMIT_SECONDS * NSEC_PER_SEC, true, e);
    if (rc == 0) {
        rc = run_until(l, now_ns() + hold, false, e);
    }
    if (rc == 0) {
        say("open");
        l->sending = true;
        l->begun = now_ns();
    }
    return rc;
}

static int run(struct load *l, uint64_t warmup, uint64_t measured, struct err *e)
{
    int rc = l->cycle ? 0 : open_all(l, warmup, e);
    if (rc == 0) {
        rc = run_until(l, now_ns() + warmup, false, e);
    }
    if (rc != 0) {
        return rc;
    }
    say("measuring");
    uint64_t begun = now_ns();
    l->opened = l->late = 0;
    memset(&l->latency, 0, sizeof l->latency);
    rc = run_until(l, begun + measured, false, e);
    if (rc == 0) {
        print_result(l, now_ns() - begun);
    }
    return rc;
}

struct arguments {
    struct flags_common common;
    const char *address;
    const char *target;
    uint64_t tunnels;
    uint64_t size;
    bool cycle;
    uint64_t warmup_ms;
    uint64_t measure_ms;
};

static int load_init(struct load *l, const struct arguments *f, struct err *e)
{
    if (f->address == NULL || address_parse(f->address, &l->address) != 0 || f->target == NULL) {
        return err_set(e, -EINVAL, "--connect ADDR:PORT or --target is missing or invalid");
    }
    int n = snprintf(l->request, sizeof l->request, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n",
                     f->target, f->target);
    if (n < 0 || (size_t)n >= sizeof l->request) {
        return err_set(e, -EINVAL, "--target is too long");
    }
    l->request_len = (size_t)n;
    l->message_len = f->size;
    for (size_t i = 0; i < l->message_len; i++) {
        l->message[i] = (char)(i * 7 + i / 256);
    }
    l->cycle = f->cycle;
    l->count = f->tunnels;
    l->tunnels = calloc(l->count, sizeof *l->tunnels);
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (l->tunnels == NULL || l->epoll < 0) {
        return err_memory(e);
    }
    for (size_t i = 0; i < l->count; i++) {
        l->tunnels[i].load = l;
    }
    return 0;
}

static const struct flag table[] = {
    {.name = "connect",
     .value = "ADDR:PORT",
     .help = "The proxy.",
     FLAG_STRING_AT(struct arguments, address)},
    {.name = "target",
     .value = "HOST:PORT",
     .help = "Where the tunnels lead.",
     FLAG_STRING_AT(struct arguments, target)},
    {.name = "tunnels",
     .value = "N",
     .help = "Tunnels at a time.",
     FLAG_UINT_AT(struct arguments, tunnels),
     .min = 1,
     .max = 100000},
    {.name = "size",
     .value = "BYTES",
     .help = "Of a message.",
     FLAG_UINT_AT(struct arguments, size),
     .min = 1,
     .max = MESSAGE_MAX},
    {.name = "cycle",
     .help = "Close each tunnel after one message, and open another.",
     FLAG_BOOL_AT(struct arguments, cycle)},
    {.name = "warmup",
     .value = "MS",
     .help = "Milliseconds before \"open\" is said, and before the first message that counts.",
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
    .program = "tunnel_load",
    .summary = "opens tunnels through an HTTP proxy and sends messages to and fro",
    .usage = "--connect ADDR:PORT --target HOST:PORT [FLAG ...]",
    .flags = table,
};

int main(int argc, char **argv)
{
    static struct load l;
    const uint64_t ms = NSEC_PER_SEC / 1000;
    struct arguments f = {.tunnels = 100, .size = 1024, .warmup_ms = 500, .measure_ms = 3000};
    struct err e = ERR_INIT;
    (void)flags_parse_or_exit(&command, &f, &f.common, argc, argv);
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    if (load_init(&l, &f, &e) != 0 || run(&l, f.warmup_ms * ms, f.measure_ms * ms, &e) != 0) {
        (void)fprintf(stderr, "tunnel_load: %s\n", e.msg);
        return EXIT_FAILED;
    }
    return EXIT_DONE;
}
