/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/health.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/condition.h"
#include "base/log.h"
#include "base/prometheus.h"
#include "base/rfc3339.h"

enum { SUBJECT_MAX = 320, REMEDY_MAX = 512, METRIC_MAX = 96, FLAP_MS = 60 * 1000 };

static const struct {
    const char *name;
    const char *begins;
    const char *ends;
    bool asked; /* it shows only in what is asked for */
} causes[HEALTH_CAUSES] = {
    [HEALTH_UNREACHABLE] = {"unreachable", "cannot connect to the API server",
                            "connected to the API server again", false},
    [HEALTH_CREDENTIALS] = {"credentials", "the API server does not accept the credentials",
                            "the API server accepts the credentials again", false},
    [HEALTH_PERMISSION] = {"permission", "the API server forbids what this program needs",
                           "the API server allows again what this program needs", true},
    [HEALTH_LENGTH] = {"length", "a request is refused for its length",
                       "requests are not refused for their length any more", true},
    [HEALTH_EXPIRY] = {"expiry", "a credential or certificate ends soon or has ended",
                       "a credential or certificate was renewed", false},
    [HEALTH_LOCK] = {"lock", "the operator asks for a lock that all shards share",
                     "the operator does not ask any more for a lock that all shards share", true},
};

struct row {
    struct list link;
    enum health_cause cause;
    char subject[SUBJECT_MAX];
    char remedy[REMEDY_MAX];
    struct condition is;
    uint64_t count;
    uint64_t told_ms;   /* a beginning was logged last */
    uint64_t raised_ms; /* it was reported last */
    bool told;          /* that it lasts */
};

void health_init(struct health *h, const struct net_clock *clock)
{
    *h = (struct health){.clock = clock != NULL ? clock : &net_clock_system};
    list_init(&h->rows);
}

static void drop(struct health *h, struct row *r)
{
    list_remove(&r->link);
    free(r);
    h->count--;
}

void health_deinit(struct health *h)
{
    while (h->count > 0) {
        drop(h, LIST_ITEM(h->rows.next, struct row, link));
    }
}

static struct row *find(const struct health *h, enum health_cause cause, const char *subject)
{
    LIST_FOR_EACH(node, &h->rows)
    {
        struct row *r = LIST_ITEM(node, struct row, link);
        if (r->cause == cause && strncmp(r->subject, subject, SUBJECT_MAX - 1) == 0) {
            return r;
        }
    }
    return NULL;
}

static bool lasts(const struct health *h, const struct row *r)
{
    return r->is.open &&
           !(causes[r->cause].asked && net_clock_now(h->clock) - r->raised_ms >= HEALTH_ASKED_MS);
}

/* One that is over is kept for its times until there is no room. False: all of them last. */
static bool make_room(struct health *h, enum health_cause cause)
{
    struct row *over = NULL;
    unsigned n = 0;
    LIST_FOR_EACH(node, &h->rows)
    {
        struct row *r = LIST_ITEM(node, struct row, link);
        n += r->cause == cause ? 1 : 0;
        over = over == NULL && r->cause == cause && !lasts(h, r) ? r : over;
    }
    if (n < HEALTH_ROWS_MAX) {
        return true;
    }
    if (over != NULL) {
        drop(h, over);
    }
    return over != NULL;
}

/* NULL: no room or no memory. */
static struct row *find_or_add(struct health *h, const struct health_report *report)
{
    struct row *r = find(h, report->cause, report->subject);
    if (r != NULL || !make_room(h, report->cause)) {
        return r;
    }
    r = calloc(1, sizeof *r);
    if (r == NULL) {
        return NULL;
    }
    r->cause = report->cause;
    (void)snprintf(r->subject, sizeof r->subject, "%s", report->subject);
    list_append(&h->rows, &r->link);
    h->count++;
    return r;
}

/* Whether its beginning is news: it lasted a moment ago, with the same words. */
static bool flaps(const struct row *r, const struct health_report *report, uint64_t now)
{
    return !r->is.open && r->told_ms != 0 && now - r->told_ms < FLAP_MS &&
           strncmp(r->is.text, report->message, sizeof r->is.text - 1) == 0;
}

static void tell(const struct health_report *report)
{
    log_warn(causes[report->cause].begins, log_str("subject", report->subject),
             log_str("error", report->message), log_str("remedy", report->remedy));
}

/* There is no room for a row. */
static void raise_further(struct health *h, const struct health_report *report, uint64_t now)
{
    uint64_t *told_ms = &h->further_ms[report->cause];
    h->raised[report->cause]++;
    if (*told_ms == 0 || now - *told_ms >= CONDITION_REPEAT_MS) {
        *told_ms = now;
        tell(report);
    }
}

void health_raise(struct health *h, const struct health_report *report)
{
    uint64_t now = net_clock_now(h->clock);
    struct row *r = find_or_add(h, report);
    if (r == NULL) {
        raise_further(h, report, now);
        return;
    }
    if (!lasts(h, r)) {
        (void)condition_clear(&r->is);
    }
    bool quiet = flaps(r, report, now);
    h->raised[report->cause] += !r->is.open;
    r->count++;
    r->raised_ms = now;
    (void)snprintf(r->remedy, sizeof r->remedy, "%s", report->remedy);
    if (condition_raise(&r->is, now, report->message) && !quiet) {
        r->told = true;
        r->told_ms = now;
        tell(report);
    }
}

void health_clear(struct health *h, enum health_cause cause, const char *subject)
{
    LIST_FOR_EACH(node, &h->rows)
    {
        struct row *r = LIST_ITEM(node, struct row, link);
        if (r->cause != cause ||
            (subject != NULL && strncmp(r->subject, subject, SUBJECT_MAX - 1) != 0)) {
            continue;
        }
        if (condition_clear(&r->is) && r->told) {
            log_info(causes[cause].ends, log_str("subject", r->subject));
        }
        r->told = false;
    }
}

unsigned health_count(const struct health *h, enum health_cause cause)
{
    unsigned n = 0;
    LIST_FOR_EACH(node, &h->rows)
    {
        const struct row *r = LIST_ITEM(node, struct row, link);
        n += r->cause == cause && lasts(h, r) ? 1 : 0;
    }
    return n;
}

const char *health_message(const struct health *h, enum health_cause cause)
{
    const struct row *longest = NULL;
    LIST_FOR_EACH(node, &h->rows)
    {
        const struct row *r = LIST_ITEM(node, struct row, link);
        if (r->cause == cause && lasts(h, r) &&
            (longest == NULL || r->is.since < longest->is.since)) {
            longest = r;
        }
    }
    return longest != NULL ? longest->is.text : NULL;
}

const char *health_cause_name(enum health_cause cause)
{
    return causes[cause].name;
}

static void add_row(const struct row *r, cJSON *array)
{
    char since[RFC3339_SIZE];
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "cause", causes[r->cause].name);
    cJSON_AddStringToObject(item, "subject", r->subject);
    cJSON_AddStringToObject(item, "message", r->is.text);
    cJSON_AddStringToObject(item, "remedy", r->remedy);
    if (rfc3339_format(r->is.since, since) == 0) {
        cJSON_AddStringToObject(item, "since", since);
    }
    cJSON_AddNumberToObject(item, "count", (double)r->count);
    cJSON_AddItemToArray(array, item);
}

void health_describe(const struct health *h, cJSON *root)
{
    cJSON *array = cJSON_AddArrayToObject(root, "problems");
    LIST_FOR_EACH(node, &h->rows)
    {
        const struct row *r = LIST_ITEM(node, struct row, link);
        if (lasts(h, r)) {
            add_row(r, array);
        }
    }
}

int health_write_metrics(const struct health *h, const char *prefix, struct buf *out)
{
    char name[METRIC_MAX];
    (void)snprintf(name, sizeof name, "%s_problems", prefix);
    prometheus_head(out, name, "gauge",
                    "Problems that last, by cause. /status names each with its remedy.");
    for (unsigned i = 0; i < HEALTH_CAUSES; i++) {
        buf_printf(out, "%s{cause=\"%s\"} %u\n", name, causes[i].name, health_count(h, i));
    }
    (void)snprintf(name, sizeof name, "%s_problems_total", prefix);
    prometheus_head(out, name, "counter", "Problems that began, by cause.");
    for (unsigned i = 0; i < HEALTH_CAUSES; i++) {
        buf_printf(out, "%s{cause=\"%s\"} %" PRIu64 "\n", name, causes[i].name, h->raised[i]);
    }
    return buf_error(out);
}
