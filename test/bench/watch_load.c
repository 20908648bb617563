/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch_load - opens watches through a proxy and measures how late their events come.
 *
 * Prints one line of JSON at each step, so that a script can sample the proxy in between:
 *
 *     {"phase":"open","watches":100}     every watch has its response head
 *     {"phase":"measuring"}              the warm-up is over
 *     {"phase":"done","events":…}        the figures of the time measured
 *
 * With --events each watch has so many events instead of so much time, and --warmup-events before
 * them: for a source that stops between the two, so that nothing is on its way at either end.
 *
 * Latency is from the stamp that watch_source put into the event to the return of the read that
 * brought the event's end, both CLOCK_MONOTONIC of one machine.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"
#include "base/flags.h"
#include "event.h"
#include "latency.h"
#include "response.h"

enum {
    MAX_READY = 256,
    MAX_OPENING = 32, /* watches that wait for their head at a time */
    OPEN_LIMIT_SECONDS = 240,
    EVENTS_LIMIT_SECONDS = 3600,
    INPUT_MAX = 65536,
    REQUEST_MAX = 2048,
};

struct load;

struct watch {
    struct load *load;
    int fd;
    struct response response;
    uint64_t sequence; /* of the last event */
    uint64_t measured; /* events since measuring began */
    size_t line_len;
    char line[EVENT_MAX]; /* the event being read */
};

struct result {
    struct latency latency; /* of each event */
    uint64_t bytes;
    uint64_t missing;  /* numbers that were skipped */
    uint64_t repeated; /* numbers that came again or went back */
    uint64_t errors;   /* watches that ended */
};

struct load {
    int epoll;
    struct sockaddr_in address;
    char request[REQUEST_MAX];
    size_t request_len;
    struct watch *watches;
    size_t count;
    size_t started;
    size_t opened;
    bool measuring;
    uint64_t goal;  /* the number of the event that is waited for, of each watch */
    size_t reached; /* watches that have it */
    uint64_t now;   /* when the read returned whose bytes are looked at */
    struct result result;
};

static int watch_start(struct load *l, struct err *e)
{
    struct watch *w = &l->watches[l->started];
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = w};
    w->load = l;
    response_init(&w->response);
    w->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (w->fd < 0 ||
        connect(w->fd, (const struct sockaddr *)&l->address, sizeof(l->address)) != 0 ||
        send(w->fd, l->request, l->request_len, MSG_NOSIGNAL) != (ssize_t)l->request_len ||
        epoll_ctl(l->epoll, EPOLL_CTL_ADD, w->fd, &ev) != 0) {
        return err_set(e, -errno, "cannot open watch %zu: %s", l->started, err_text(-errno));
    }
    l->started++;
    return 0;
}

static int event_read(struct watch *w, struct err *e)
{
    struct load *l = w->load;
    struct result *r = &l->result;
    uint64_t sent = 0;
    uint64_t sequence = 0;
    const char *sent_at = event_find(w->line, w->line_len, EVENT_SENT);
    const char *sequence_at = event_find(w->line, w->line_len, EVENT_SEQUENCE);
    if (sent_at == NULL || sequence_at == NULL || !event_get(sent_at, &sent) ||
        !event_get(sequence_at, &sequence)) {
        return err_set(e, -EPROTO, "not an event of watch_source: %.*s",
                       (int)(w->line_len < 120 ? w->line_len : 120), w->line);
    }
    if (sequence <= w->sequence) {
        r->repeated++;
    } else {
        r->missing += sequence - w->sequence - 1;
        l->reached += w->sequence < l->goal && sequence >= l->goal ? 1 : 0;
        w->sequence = sequence;
    }
    if (l->measuring) {
        w->measured++;
        r->bytes += w->line_len + 1;
        latency_add(&r->latency, l->now > sent ? l->now - sent : 0);
    }
    return 0;
}

/* Whole lines are events. */
static int on_body(void *arg, const char *data, size_t len, struct err *e)
{
    struct watch *w = arg;
    while (len > 0) {
        const char *end = memchr(data, '\n', len);
        size_t part = end == NULL ? len : (size_t)(end - data);
        if (part > EVENT_MAX - w->line_len) {
            return err_set(e, -EMSGSIZE, "an event is longer than %d bytes", EVENT_MAX);
        }
        memcpy(w->line + w->line_len, data, part);
        w->line_len += part;
        if (end == NULL) {
            return 0;
        }
        int rc = event_read(w, e);
        if (rc != 0) {
            return rc;
        }
        w->line_len = 0;
        data += part + 1;
        len -= part + 1;
    }
    return 0;
}

/* A watch is a chunked 200 without an end. */
static int check_response(const struct response *r, struct err *e)
{
    if (r->status != 200) {
        return err_set(e, -EPROTO, "answered %.*s", (int)strcspn(r->head, "\r"), r->head);
    }
    if (!r->chunked) {
        return err_set(e, -EPROTO, "the answer is not chunked");
    }
    bool over = r->state == RESPONSE_TRAILER || r->state == RESPONSE_DONE;
    return over ? err_set(e, -ECONNRESET, "the watch was ended") : 0;
}

static int watch_feed(struct watch *w, const char *data, size_t len, struct err *e)
{
    while (len > 0) {
        bool opening = w->response.state == RESPONSE_HEAD;
        ssize_t taken = response_feed(&w->response, data, len, on_body, w, e);
        if (taken < 0) {
            return (int)taken;
        }
        if (w->response.state != RESPONSE_HEAD) {
            int rc = check_response(&w->response, e);
            if (rc != 0) {
                return rc;
            }
            w->load->opened += opening ? 1 : 0;
        }
        data += taken;
        len -= (size_t)taken;
    }
    return 0;
}

static int watch_read(struct watch *w, struct err *e)
{
    static char input[INPUT_MAX];
    ssize_t n = recv(w->fd, input, sizeof(input), MSG_DONTWAIT);
    w->load->now = now_ns();
    if (n <= 0) {
        return n < 0 && errno == EAGAIN ? 0 : err_set(e, -ECONNRESET, "the connection was closed");
    }
    return watch_feed(w, input, (size_t)n, e);
}

/* What is waited for: every watch is open, time is over, or every watch has its event `goal`. */
enum until { UNTIL_OPEN, UNTIL_TIME, UNTIL_GOAL };

static bool is_reached(const struct load *l, enum until until)
{
    return (until == UNTIL_OPEN && l->opened == l->count) ||
           (until == UNTIL_GOAL && l->reached == l->count);
}

static int start_watches(struct load *l, struct err *e)
{
    while (l->started < l->count && l->started - l->opened < MAX_OPENING) {
        int rc = watch_start(l, e);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

/* A watch that ends is an error at once, but where time is measured: there it is counted. */
static int read_ready(struct load *l, uint64_t deadline, enum until until, struct err *e)
{
    struct epoll_event ready[MAX_READY];
    uint64_t now = now_ns();
    int wait_ms = now < deadline ? (int)((deadline - now) / (NSEC_PER_MSEC)) + 1 : 0;
    int n = epoll_wait(l->epoll, ready, MAX_READY, wait_ms);
    for (int i = 0; i < n; i++) {
        struct watch *w = ready[i].data.ptr;
        int rc = watch_read(w, e);
        if (rc != 0 && until != UNTIL_TIME) {
            return rc;
        }
        if (rc != 0) {
            l->result.errors++;
            close(w->fd);
        }
    }
    return 0;
}

/* Reads what comes until then, but not beyond `deadline`. */
static int run_until(struct load *l, uint64_t deadline, enum until until, struct err *e)
{
    int rc = 0;
    while (rc == 0 && now_ns() < deadline) {
        if (is_reached(l, until)) {
            return 0;
        }
        rc = start_watches(l, e);
        if (rc == 0) {
            rc = read_ready(l, deadline, until, e);
        }
    }
    if (rc != 0 || until == UNTIL_TIME) {
        return rc;
    }
    return err_set(e, -ETIMEDOUT, "%zu of %zu watches were %s in time",
                   until == UNTIL_OPEN ? l->opened : l->reached, l->count,
                   until == UNTIL_OPEN ? "opened" : "given their events");
}

static void print_result(const struct load *l, uint64_t elapsed)
{
    const struct result *r = &l->result;
    size_t silent = 0;
    for (size_t i = 0; i < l->count; i++) {
        silent += l->watches[i].measured == 0 ? 1 : 0;
    }
    printf("{\"phase\":\"done\",\"watches\":%zu,\"seconds\":%.3f,\"events\":%" PRIu64
           ",\"bytes\":%" PRIu64 ",\"p50_us\":%" PRIu64 ",\"p99_us\":%" PRIu64
           ",\"max_us\":%" PRIu64 ",\"missing\":%" PRIu64 ",\"repeated\":%" PRIu64
           ",\"silent\":%zu,\"errors\":%" PRIu64 "}\n",
           l->count, (double)elapsed / (double)NSEC_PER_SEC, r->latency.count, r->bytes,
           latency_percentile(&r->latency, 50), latency_percentile(&r->latency, 99),
           r->latency.slowest / NSEC_PER_USEC, r->missing, r->repeated, silent, r->errors);
    (void)fflush(stdout);
}

/* So many events of each watch, or if there are none so much time. */
struct span {
    uint64_t events;
    uint64_t ms;
};

static int run_for(struct load *l, const struct span *span, struct err *e)
{
    if (span->events == 0) {
        return run_until(l, now_ns() + span->ms * NSEC_PER_MSEC, UNTIL_TIME, e);
    }
    l->goal += span->events;
    l->reached = 0;
    for (size_t i = 0; i < l->count; i++) {
        l->reached += l->watches[i].sequence >= l->goal ? 1 : 0;
    }
    return run_until(l, now_ns() + EVENTS_LIMIT_SECONDS * NSEC_PER_SEC, UNTIL_GOAL, e);
}

static int run(struct load *l, const struct span *warmup, const struct span *measure, struct err *e)
{
    int rc = run_until(l, now_ns() + OPEN_LIMIT_SECONDS * NSEC_PER_SEC, UNTIL_OPEN, e);
    if (rc != 0) {
        return rc;
    }
    printf("{\"phase\":\"open\",\"watches\":%zu}\n", l->opened);
    (void)fflush(stdout);
    rc = run_for(l, warmup, e);
    if (rc != 0) {
        return rc;
    }
    printf("{\"phase\":\"measuring\"}\n");
    (void)fflush(stdout);
    l->measuring = true;
    uint64_t begun = now_ns();
    rc = run_for(l, measure, e);
    if (rc == 0) {
        print_result(l, now_ns() - begun);
    }
    return rc;
}

static int load_init(struct load *l, const char *address, const char *target, uint64_t watches,
                     struct err *e)
{
    if (address == NULL || address_parse(address, &l->address) != 0) {
        return err_set(e, -EINVAL, "--connect ADDR:PORT is missing or invalid");
    }
    int n = snprintf(l->request, sizeof(l->request),
                     "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: operator/v1 (linux/amd64)\r\n"
                     "Accept: application/json\r\n\r\n",
                     target, address);
    if (n < 0 || (size_t)n >= sizeof(l->request)) {
        return err_set(e, -EINVAL, "--target is too long");
    }
    l->request_len = (size_t)n;
    l->count = watches;
    l->watches = calloc(watches, sizeof(*l->watches));
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (l->watches == NULL || l->epoll < 0) {
        return err_memory(e);
    }
    return 0;
}

struct arguments {
    struct flags_common common;
    const char *address;
    const char *target;
    uint64_t watches;
    struct span warmup;
    struct span measure;
};

static const struct flag table[] = {
    {.name = "connect",
     .value = "ADDR:PORT",
     .help = "The proxy, or the server itself.",
     FLAG_STRING_AT(struct arguments, address)},
    {.name = "target",
     .value = "PATH",
     .help = "Path and query of the watch.",
     FLAG_STRING_AT(struct arguments, target)},
    {.name = "watches",
     .value = "N",
     .help = "Watches to open.",
     FLAG_UINT_AT(struct arguments, watches),
     .min = 1,
     .max = 16384},
    {.name = "warmup",
     .value = "MS",
     .help = "Milliseconds between the last opening and the first event that counts.",
     FLAG_UINT_AT(struct arguments, warmup.ms),
     .max = 600000},
    {.name = "measure",
     .value = "MS",
     .help = "Milliseconds to measure.",
     FLAG_UINT_AT(struct arguments, measure.ms),
     .max = 600000},
    {.name = "warmup-events",
     .value = "N",
     .help = "Instead of --warmup: events of each watch before the first that counts.",
     FLAG_UINT_AT(struct arguments, warmup.events),
     .max = 1000000},
    {.name = "events",
     .value = "N",
     .help = "Instead of --measure: events of each watch to measure.",
     FLAG_UINT_AT(struct arguments, measure.events),
     .max = 1000000},
    FLAGS_COMMON(struct arguments, common),
    {0},
};

static const struct command command = {
    .program = "watch_load",
    .summary = "opens watches and measures their events' latency",
    .usage = "--connect ADDR:PORT [FLAG ...]",
    .flags = table,
};

int main(int argc, char **argv)
{
    static struct load l;
    struct arguments f = {
        .target = "/api/v1/pods?watch=true",
        .watches = 100,
        .warmup = {.ms = 500},
        .measure = {.ms = 3000},
    };
    struct err e = ERR_INIT;
    (void)flags_parse_or_exit(&command, &f, &f.common, argc, argv);
    if (load_init(&l, f.address, f.target, f.watches, &e) != 0 ||
        run(&l, &f.warmup, &f.measure, &e) != 0) {
        (void)fprintf(stderr, "watch_load: %s\n", e.msg);
        return EXIT_FAILED;
    }
    return EXIT_DONE;
}
