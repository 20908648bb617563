/* SPDX-License-Identifier: Apache-2.0 */
/*
 * informer_load - many clients that go about their work as client-go's informers do:
 *
 *     LISTING ---> WATCHING ---> WATCHING     the watch ended: on from the last version
 *        ^            |
 *        +------------+ 410 Expired
 *
 * They do not wait before they list again, keep no objects, and read JSON. For each line on
 * standard input one line of JSON tells what happened since the start:
 *
 *     {"watching":1000,"touched":1000,"lists":…,"view_ns":…}
 *
 * `watching` is how many have an open watch now, `touched` how many got an event, or were ended,
 * since the last line "clear", and `view_ns` (CLOCK_MONOTONIC) when one's view changed last.
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
#include "response.h"

enum {
    MAX_READY = 256,
    MAX_OPENING = 32, /* informers that wait for their first list at a time */
    INPUT_MAX = 65536,
    TARGET_MAX = 512,
    REQUEST_MAX = 2048,
    BEGIN_MAX = 2048, /* of an event or a list: the version stands near its start */
    VERSION_MAX = 20,
    RETRY_MS = 50,
};

enum step { STEP_NONE, STEP_LISTING, STEP_WATCHING };

struct load;

struct informer {
    struct load *load;
    size_t number;
    int fd; /* -1: none */
    enum step step;
    uint64_t retry_at; /* 0: it has asked */
    unsigned failures; /* connections lost without an answer, in a row */
    bool touched;
    bool expired;
    struct response response;
    char version[VERSION_MAX + 1];
    size_t begin_len;
    char begin[BEGIN_MAX + 1]; /* of the list or the event that is arriving */
};

struct result {
    uint64_t lists;
    uint64_t list_bytes;
    uint64_t watches;
    uint64_t added;
    uint64_t modified;
    uint64_t deleted;
    uint64_t bookmarks;
    uint64_t expired;
    uint64_t ended;
    uint64_t refused; /* answers other than 200 and 410 */
    uint64_t lost;    /* connections, while an answer was awaited */
    uint64_t view_ns;
};

struct load {
    int epoll;
    struct sockaddr_in address;
    const char *authority;
    const char *path; /* "{}" in it stands for the number */
    struct informer *informers;
    size_t count;
    size_t started;
    size_t opened; /* that have watched once */
    size_t waiting;
    struct result result;
};

/* ---- asking ---- */

static void hang_up(struct informer *i)
{
    if (i->fd >= 0) {
        close(i->fd);
        i->fd = -1;
    }
}

static int dial(struct informer *i, struct err *e)
{
    struct load *l = i->load;
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = i};
    i->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (i->fd < 0 ||
        connect(i->fd, (const struct sockaddr *)&l->address, sizeof(l->address)) != 0 ||
        epoll_ctl(l->epoll, EPOLL_CTL_ADD, i->fd, &ev) != 0) {
        return err_set(e, -errno, "cannot connect: %s", err_text(-errno));
    }
    return 0;
}

static int put_path(const struct informer *i, char *out, size_t size)
{
    const char *path = i->load->path;
    const char *mark = strstr(path, "{}");
    return mark == NULL
               ? snprintf(out, size, "%s", path)
               : snprintf(out, size, "%.*s%zu%s", (int)(mark - path), path, i->number, mark + 2);
}

static int put_request(const struct informer *i, char *out, size_t size)
{
    char path[TARGET_MAX];
    char query[TARGET_MAX];
    put_path(i, path, sizeof(path));
    if (i->step == STEP_WATCHING) {
        (void)snprintf(query, sizeof(query),
                       "watch=true&allowWatchBookmarks=true&resourceVersion=%s&timeoutSeconds=3600",
                       i->version);
    } else if (i->version[0] == '\0') {
        (void)snprintf(query, sizeof(query), "limit=500&resourceVersion=0");
    } else {
        (void)snprintf(query, sizeof(query), "resourceVersion=%s", i->version);
    }
    return snprintf(out, size,
                    "GET %s?%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: operator/v1 (linux/amd64)\r\n"
                    "Accept: application/json\r\n\r\n",
                    path, query, i->load->authority);
}

static int ask(struct informer *i, enum step step, struct err *e)
{
    char request[REQUEST_MAX];
    i->step = step;
    i->expired = false;
    i->begin_len = 0;
    response_init(&i->response);
    int len = put_request(i, request, sizeof(request));
    if (i->fd >= 0 && send(i->fd, request, (size_t)len, MSG_NOSIGNAL) == len) {
        return 0;
    }
    hang_up(i);
    int rc = dial(i, e);
    if (rc == 0 && send(i->fd, request, (size_t)len, MSG_NOSIGNAL) != len) {
        rc = err_set(e, -EPIPE, "cannot send a request");
    }
    return rc;
}

static void ask_later(struct informer *i)
{
    i->retry_at = now_ns() + RETRY_MS * (NSEC_PER_SEC / 1000);
    i->load->waiting++;
}

/* ---- reading ---- */

/* The first resourceVersion of a list or an event is its own. False: it has none. */
static bool read_version(struct informer *i)
{
    static const char field[] = "\"resourceVersion\":\"";
    i->begin[i->begin_len] = '\0';
    const char *at = strstr(i->begin, field);
    if (at == NULL) {
        return false;
    }
    at += sizeof(field) - 1;
    size_t len = strspn(at, "0123456789");
    if (len == 0 || len > VERSION_MAX || at[len] != '"') {
        return false;
    }
    memcpy(i->version, at, len);
    i->version[len] = '\0';
    return true;
}

static bool begins(const struct informer *i, const char *type)
{
    size_t len = strlen(type);
    return i->begin_len >= len && memcmp(i->begin, type, len) == 0;
}

static int event_read(struct informer *i, struct err *e)
{
    struct result *r = &i->load->result;
    i->touched = true;
    if (begins(i, "{\"type\":\"ERROR\"")) {
        i->expired = true;
        r->expired++;
        return 0;
    }
    if (begins(i, "{\"type\":\"BOOKMARK\"")) {
        r->bookmarks++;
    } else if (begins(i, "{\"type\":\"MODIFIED\"")) {
        r->modified++;
    } else {
        bool added = begins(i, "{\"type\":\"ADDED\"");
        r->added += added ? 1 : 0;
        r->deleted += added ? 0 : 1;
        r->view_ns = now_ns();
    }
    return read_version(i) ? 0 : err_set(e, -EPROTO, "an event without version: %s", i->begin);
}

static void keep_begin(struct informer *i, const char *data, size_t len)
{
    size_t room = BEGIN_MAX - i->begin_len;
    size_t part = len < room ? len : room;
    memcpy(i->begin + i->begin_len, data, part);
    i->begin_len += part;
}

static int on_body(void *arg, const char *data, size_t len, struct err *e)
{
    struct informer *i = arg;
    if (i->step == STEP_LISTING || i->response.status != 200) {
        i->load->result.list_bytes += len;
        keep_begin(i, data, len);
        return 0;
    }
    while (len > 0) {
        const char *end = memchr(data, '\n', len);
        size_t part = end == NULL ? len : (size_t)(end - data);
        keep_begin(i, data, part);
        if (end == NULL) {
            return 0;
        }
        int rc = event_read(i, e);
        if (rc != 0) {
            return rc;
        }
        i->begin_len = 0;
        data += part + 1;
        len -= part + 1;
    }
    return 0;
}

/* ---- what follows an answer ---- */

static int listed(struct informer *i, struct err *e)
{
    struct result *r = &i->load->result;
    if (!read_version(i)) {
        return err_set(e, -EPROTO, "a list without version: %.200s", i->begin);
    }
    r->lists++;
    r->view_ns = now_ns();
    return ask(i, STEP_WATCHING, e);
}

static int answered(struct informer *i, struct err *e)
{
    struct result *r = &i->load->result;
    unsigned status = i->response.status;
    if (i->response.closes) {
        hang_up(i);
    }
    if (status == 410) {
        r->expired++;
        i->version[0] = '\0';
        return ask(i, STEP_LISTING, e);
    }
    if (status != 200) {
        r->refused++;
        ask_later(i);
        return 0;
    }
    if (i->step == STEP_LISTING) {
        return listed(i, e);
    }
    i->touched = true;
    r->ended++;
    return ask(i, i->expired ? STEP_LISTING : STEP_WATCHING, e);
}

/* The connection is gone: asks again what was asked, or goes on from the last version. */
static int lost(struct informer *i, struct err *e)
{
    i->touched = true;
    i->load->result.lost++;
    hang_up(i);
    if (i->failures++ > 0) {
        ask_later(i);
        return 0;
    }
    return ask(i, i->expired ? STEP_LISTING : i->step, e);
}

static void note_head(struct informer *i)
{
    i->failures = 0;
    if (i->step == STEP_WATCHING && i->response.status == 200) {
        i->load->result.watches++;
        i->load->opened += i->load->opened < i->load->count ? 1 : 0;
    }
}

static int feed(struct informer *i, const char *data, size_t len, struct err *e)
{
    while (len > 0) {
        bool head = i->response.state == RESPONSE_HEAD;
        ssize_t taken = response_feed(&i->response, data, len, on_body, i, e);
        if (taken < 0) {
            return (int)taken;
        }
        if (head && i->response.state != RESPONSE_HEAD) {
            note_head(i);
        }
        data += taken;
        len -= (size_t)taken;
        if (i->response.state == RESPONSE_DONE) {
            return answered(i, e); /* nothing follows: the next is not asked for yet */
        }
    }
    return 0;
}

static int informer_read(struct informer *i, struct err *e)
{
    static char input[INPUT_MAX];
    ssize_t n = i->fd < 0 ? -1 : recv(i->fd, input, sizeof(input), MSG_DONTWAIT);
    if (n < 0 && (i->fd < 0 || errno == EAGAIN)) {
        return 0;
    }
    return n <= 0 ? lost(i, e) : feed(i, input, (size_t)n, e);
}

/* ---- all of them ---- */

static size_t count_watching(const struct load *l)
{
    size_t count = 0;
    for (size_t n = 0; n < l->started; n++) {
        const struct informer *i = &l->informers[n];
        bool open = i->response.state != RESPONSE_HEAD && i->response.state != RESPONSE_DONE;
        count += i->step == STEP_WATCHING && open && i->response.status == 200 ? 1 : 0;
    }
    return count;
}

static size_t count_touched(const struct load *l)
{
    size_t count = 0;
    for (size_t n = 0; n < l->started; n++) {
        count += l->informers[n].touched ? 1 : 0;
    }
    return count;
}

static void clear_touched(struct load *l)
{
    for (size_t n = 0; n < l->started; n++) {
        l->informers[n].touched = false;
    }
}

static void report(struct load *l)
{
    const struct result *r = &l->result;
    printf("{\"watching\":%zu,\"touched\":%zu,\"lists\":%" PRIu64 ",\"list_bytes\":%" PRIu64
           ",\"watches\":%" PRIu64 ",\"added\":%" PRIu64 ",\"modified\":%" PRIu64
           ",\"deleted\":%" PRIu64 ",\"bookmarks\":%" PRIu64 ",\"expired\":%" PRIu64
           ",\"ended\":%" PRIu64 ",\"refused\":%" PRIu64 ",\"lost\":%" PRIu64
           ",\"view_ns\":%" PRIu64 "}\n",
           count_watching(l), count_touched(l), r->lists, r->list_bytes, r->watches, r->added,
           r->modified, r->deleted, r->bookmarks, r->expired, r->ended, r->refused, r->lost,
           r->view_ns);
    (void)fflush(stdout);
}

/* False: standard input has ended. */
static bool command_read(struct load *l)
{
    char line[64];
    ssize_t n = read(STDIN_FILENO, line, sizeof(line));
    for (ssize_t i = 0; i < n; i++) {
        if (line[i] == 'c') {
            clear_touched(l);
        } else if (line[i] == '\n') {
            report(l);
        }
    }
    return n > 0;
}

static int start_some(struct load *l, struct err *e)
{
    int rc = 0;
    while (rc == 0 && l->started < l->count && l->started < l->opened + MAX_OPENING) {
        rc = ask(&l->informers[l->started++], STEP_LISTING, e);
    }
    return rc;
}

static int ask_those_due(struct load *l, struct err *e)
{
    uint64_t now = now_ns();
    int rc = 0;
    for (size_t n = 0; rc == 0 && n < l->started && l->waiting > 0; n++) {
        struct informer *i = &l->informers[n];
        if (i->retry_at != 0 && i->retry_at <= now) {
            i->retry_at = 0;
            l->waiting--;
            rc = ask(i, i->step, e);
        }
    }
    return rc;
}

static int run(struct load *l, struct err *e)
{
    struct epoll_event ready[MAX_READY];
    struct epoll_event commands = {.events = EPOLLIN, .data.ptr = NULL};
    if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, STDIN_FILENO, &commands) != 0) {
        return err_set(e, -errno, "standard input: %s", err_text(-errno));
    }
    for (;;) {
        int rc = start_some(l, e);
        int n = epoll_wait(l->epoll, ready, MAX_READY, l->waiting > 0 ? RETRY_MS : -1);
        for (int k = 0; rc == 0 && k < n; k++) {
            if (ready[k].data.ptr != NULL) {
                rc = informer_read(ready[k].data.ptr, e);
            } else if (!command_read(l)) {
                return 0;
            }
        }
        rc = rc != 0 ? rc : ask_those_due(l, e);
        if (rc != 0) {
            return rc;
        }
    }
}

static int load_init(struct load *l, const char *address, uint64_t count, struct err *e)
{
    if (address == NULL || address_parse(address, &l->address) != 0) {
        return err_set(e, -EINVAL, "--connect ADDR:PORT is missing or invalid");
    }
    if (strlen(l->path) > TARGET_MAX - EVENT_DIGITS - 1) {
        return err_set(e, -EINVAL, "--path is too long");
    }
    l->authority = address;
    l->count = count;
    l->informers = calloc(count, sizeof(*l->informers));
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (l->informers == NULL || l->epoll < 0) {
        return err_memory(e);
    }
    for (size_t n = 0; n < count; n++) {
        l->informers[n].load = l;
        l->informers[n].number = n;
        l->informers[n].fd = -1;
    }
    return 0;
}

struct arguments {
    struct flags_common common;
    const char *address;
    const char *path;
    uint64_t informers;
};

static const struct flag table[] = {
    {.name = "connect",
     .value = "ADDR:PORT",
     .help = "The proxy.",
     FLAG_STRING_AT(struct arguments, address)},
    {.name = "path",
     .value = "PATH",
     .help = "What is listed and watched; {} in it is replaced by the informer's number.",
     FLAG_STRING_AT(struct arguments, path)},
    {.name = "informers",
     .value = "N",
     .help = "How many.",
     FLAG_UINT_AT(struct arguments, informers),
     .min = 1,
     .max = 4096},
    FLAGS_COMMON(struct arguments, common),
    {0},
};

static const struct command command = {
    .program = "informer_load",
    .summary = "lists and watches as many informers do",
    .usage = "--connect ADDR:PORT [FLAG ...]",
    .flags = table,
};

int main(int argc, char **argv)
{
    static struct load l;
    struct arguments f = {.path = "/api/v1/pods", .informers = 100};
    struct err e = ERR_INIT;
    (void)flags_parse_or_exit(&command, &f, &f.common, argc, argv);
    l.path = f.path;
    if (load_init(&l, f.address, f.informers, &e) != 0 || run(&l, &e) != 0) {
        (void)fprintf(stderr, "informer_load: %s\n", e.msg);
        return EXIT_FAILED;
    }
    return EXIT_DONE;
}
