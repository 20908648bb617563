/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch_source - an API server reduced to its watches: answers every request with a chunked stream
 * of watch events, each stamped with the time it was sent.
 *
 * The query parameter `eventsPerSecond` sets the pace of its watch (0 or absent: no events). The
 * watches' events are spread evenly over the interval, so that a proxy meets them one at a time.
 * With `events` a watch says nothing more after so many, until somebody asks for
 * `/more?events=N`: then every watch that is open has N more.
 * Plain HTTP/1.1; the benchmark's nginx puts TLS in front of it.
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"
#include "base/file.h"
#include "base/flags.h"
#include "event.h"

enum { MAX_WATCHES = 16384, MAX_READY = 256, REQUEST_MAX = 8192, CHUNK_FRAME = 16 };

#define HEAD                                                                                       \
    "HTTP/1.1 200 OK\r\nCache-Control: no-cache, private\r\nContent-Type: application/json\r\n"    \
    "X-Kubernetes-Pf-Flowschema-Uid: 7d1c3f0e-4b1d-4a55-9a52-0f7f1b1d6a10\r\n"                     \
    "X-Kubernetes-Pf-Prioritylevel-Uid: 2a8f6f6b-7a0e-4c39-8f4e-3f6a0c9f5f21\r\n"                  \
    "Transfer-Encoding: chunked\r\n\r\n"

#define DONE "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

struct watch {
    int fd;
    size_t slot;       /* where it stands in the source's table */
    uint64_t interval; /* ns between events; 0: none */
    uint64_t due;      /* when the next event is to be sent; 0 while the request is being read */
    uint64_t sequence;
    uint64_t last; /* the number of the event after which it says nothing */
    size_t request_len;
    char request[REQUEST_MAX];
    size_t unsent; /* bytes at the end of `chunk` that the socket did not take yet */
    char chunk[];  /* this watch's copy of the source's */
};

struct source {
    int epoll;
    int listener;
    struct watch *watches[MAX_WATCHES];
    size_t count;
    uint64_t accepted;
    char *chunk; /* one event framed as a chunk */
    size_t chunk_len;
    size_t sent_at; /* where in `chunk` the digits stand */
    size_t sequence_at;
};

static void watch_close(struct source *s, struct watch *w)
{
    struct watch *last = s->watches[--s->count];
    s->watches[w->slot] = last;
    last->slot = w->slot;
    close(w->fd);
    free(w);
}

static void accept_one(struct source *s)
{
    int fd = accept4(s->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        return;
    }
    struct watch *w = s->count == MAX_WATCHES ? NULL : calloc(1, sizeof(*w) + s->chunk_len);
    if (w == NULL) {
        close(fd);
        return;
    }
    int on = 1;
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = w};
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    w->fd = fd;
    w->slot = s->count;
    memcpy(w->chunk, s->chunk, s->chunk_len);
    s->watches[s->count++] = w;
    if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &ev) != 0) {
        watch_close(s, w);
    }
}

/* The n-th watch sends first at this share of its interval. Multiples of the golden ratio keep any
 * run of watches evenly spread, however many there are. */
static uint64_t phase(uint64_t n, uint64_t interval)
{
    const double golden = 0.6180339887498949;
    double whole = (double)n * golden;
    return (uint64_t)((whole - (double)(uint64_t)whole) * (double)interval);
}

/* The number behind `param` in the request; 0: there is none. */
static uint64_t query(const struct watch *w, const char *param)
{
    const char *at = strstr(w->request, param);
    return at == NULL ? 0 : strtoul(at + strlen(param), NULL, 10);
}

static void watch_begin(struct source *s, struct watch *w)
{
    uint64_t rate = query(w, "eventsPerSecond=");
    uint64_t events = query(w, "&events=");
    w->last = events == 0 ? UINT64_MAX : events;
    w->interval = rate == 0 ? 0 : NSEC_PER_SEC / rate;
    w->due = rate == 0 ? UINT64_MAX : now_ns() + phase(s->accepted++, w->interval);
}

/* They go on at the pace that they have. */
static void more_events(struct source *s, const struct watch *asker)
{
    uint64_t more = query(asker, "?events=");
    uint64_t now = now_ns();
    for (size_t i = 0; i < s->count; i++) {
        struct watch *w = s->watches[i];
        if (w->interval != 0 && w->last != UINT64_MAX) {
            w->due = w->sequence == w->last ? now + phase(s->accepted++, w->interval) : w->due;
            w->last += more;
        }
    }
}

/* Reads the request's head; false when the watch is over. */
static bool watch_read(struct source *s, struct watch *w)
{
    size_t room = REQUEST_MAX - 1 - w->request_len;
    ssize_t n = room == 0 ? 0 : recv(w->fd, w->request + w->request_len, room, 0);
    if (n <= 0) {
        return n < 0 && errno == EAGAIN;
    }
    w->request_len += (size_t)n;
    w->request[w->request_len] = '\0';
    if (w->due != 0 || strstr(w->request, "\r\n\r\n") == NULL) {
        return true;
    }
    if (strncmp(w->request, "GET /more?", strlen("GET /more?")) == 0) {
        more_events(s, w);
        (void)send(w->fd, DONE, sizeof(DONE) - 1, MSG_NOSIGNAL);
        return false;
    }
    watch_begin(s, w);
    return send(w->fd, HEAD, sizeof(HEAD) - 1, MSG_NOSIGNAL) == (ssize_t)sizeof(HEAD) - 1;
}

/* Sends one event, or what is left of the last one if the socket was full; false: peer is gone. */
static bool watch_send(const struct source *s, struct watch *w)
{
    if (w->unsent == 0) {
        event_put(w->chunk + s->sequence_at, ++w->sequence);
        event_put(w->chunk + s->sent_at, now_ns());
        w->unsent = s->chunk_len;
    }
    ssize_t n = send(w->fd, w->chunk + s->chunk_len - w->unsent, w->unsent, MSG_NOSIGNAL);
    if (n < 0) {
        return errno == EAGAIN;
    }
    w->unsent -= (size_t)n;
    return true;
}

/* Sends what is due; returns when the next event is. */
static uint64_t send_due(struct source *s)
{
    uint64_t next = UINT64_MAX;
    uint64_t now = now_ns();
    for (size_t i = s->count; i-- > 0;) {
        struct watch *w = s->watches[i];
        if (w->due == 0) {
            continue;
        }
        if (w->due <= now) {
            /* A late source skips beats instead of bunching them. */
            w->due += (1 + (now - w->due) / w->interval) * w->interval;
            if (!watch_send(s, w)) {
                watch_close(s, w);
                continue;
            }
            if (w->unsent == 0 && w->sequence == w->last) {
                w->due = UINT64_MAX;
            }
        }
        next = w->due < next ? w->due : next;
    }
    return next;
}

static void wait_until(struct source *s, uint64_t due)
{
    struct epoll_event ready[MAX_READY];
    struct timespec ts;
    uint64_t now = now_ns();
    uint64_t wait = due > now ? due - now : 0;
    ts.tv_sec = (time_t)(wait / NSEC_PER_SEC);
    ts.tv_nsec = (long)(wait % NSEC_PER_SEC);
    int n = epoll_pwait2(s->epoll, ready, MAX_READY, due == UINT64_MAX ? NULL : &ts, NULL);
    for (int i = 0; i < n; i++) {
        struct watch *w = ready[i].data.ptr;
        if (w == NULL) {
            accept_one(s);
        } else if (!watch_read(s, w)) {
            watch_close(s, w);
        }
    }
}

/* Frames the event in the file as one chunk and finds the digits in it. */
static int load_event(struct source *s, const char *path, struct err *e)
{
    struct buf text = BUF_INIT(EVENT_MAX);
    int rc = file_read(path, &text, e);
    if (rc != 0) {
        return rc;
    }
    s->chunk = malloc(text.len + CHUNK_FRAME);
    if (s->chunk == NULL) {
        buf_reset(&text);
        return err_memory(e);
    }
    int head = snprintf(s->chunk, CHUNK_FRAME, "%zx\r\n", text.len);
    memcpy(s->chunk + head, buf_data(&text), text.len);
    memcpy(s->chunk + head + text.len, "\r\n", 2);
    s->chunk_len = (size_t)head + text.len + 2;
    buf_reset(&text);
    char *sent = event_find(s->chunk, s->chunk_len, EVENT_SENT);
    char *sequence = event_find(s->chunk, s->chunk_len, EVENT_SEQUENCE);
    if (sent == NULL || sequence == NULL) {
        return err_set(e, -EINVAL, "%s: lacks %s or %s", path, EVENT_SENT, EVENT_SEQUENCE);
    }
    s->sent_at = (size_t)(sent - s->chunk);
    s->sequence_at = (size_t)(sequence - s->chunk);
    return 0;
}

static int start_listening(struct source *s, const char *address, struct err *e)
{
    struct sockaddr_in at;
    socklen_t len = sizeof(at);
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = NULL};
    if (address_parse(address, &at) != 0) {
        return err_set(e, -EINVAL, "--listen %s: not ADDR:PORT", address);
    }
    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (s->listener < 0 || s->epoll < 0 || bind(s->listener, (struct sockaddr *)&at, len) != 0 ||
        listen(s->listener, SOMAXCONN) != 0 ||
        getsockname(s->listener, (struct sockaddr *)&at, &len) != 0 ||
        epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->listener, &ev) != 0) {
        return err_set(e, -errno, "cannot listen on %s: %s", address, err_text(-errno));
    }
    printf("{\"listen\":\"127.0.0.1:%u\"}\n", ntohs(at.sin_port));
    (void)fflush(stdout);
    return 0;
}

struct arguments {
    struct flags_common common;
    const char *address;
    const char *event;
};

static const struct flag table[] = {
    {.name = "listen",
     .value = "ADDR:PORT",
     .help = "Where to listen; port 0 picks a free one.",
     FLAG_STRING_AT(struct arguments, address)},
    {.name = "event",
     .value = "FILE",
     .help = "One line of JSON, sent as each event.",
     FLAG_STRING_AT(struct arguments, event)},
    FLAGS_COMMON(struct arguments, common),
    {0},
};

static const struct command command = {
    .program = "watch_source",
    .summary = "serves watch streams stamped with the time",
    .usage = "--event FILE [--listen ADDR:PORT]",
    .flags = table,
};

int main(int argc, char **argv)
{
    static struct source s;
    struct arguments f = {.address = "127.0.0.1:0"};
    struct err e = ERR_INIT;
    (void)flags_parse_or_exit(&command, &f, &f.common, argc, argv);
    if (f.event == NULL) {
        (void)fprintf(stderr, "watch_source: --event is missing\n");
        return EXIT_USAGE;
    }
    if (load_event(&s, f.event, &e) != 0 || start_listening(&s, f.address, &e) != 0) {
        (void)fprintf(stderr, "watch_source: %s\n", e.msg);
        return EXIT_FAILED;
    }
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    for (;;) {
        wait_until(&s, send_due(&s));
    }
}
