/* SPDX-License-Identifier: Apache-2.0 */
/*
 * health.h - what is wrong between a program and its API server, as one table.
 *
 * A row is a cause and what it concerns: a credential, a permission, a certificate. Whoever meets
 * one reports it, as often as it is met. The first report logs a warning with the remedy; the same
 * words are logged again after ten minutes. The end of a row is logged at level info. One that
 * comes and goes is logged once a minute at most. Beside them are rows about what the operator asks
 * of its API server, which only localproxy sees. /status, /readyz?verbose and /metrics print the
 * table.
 *
 * That a permission is there, a length is taken, or a lock is another one, shows only when the same
 * is asked for again. A manager that leads no more, or whose object was deleted, asks no more: such
 * rows last for HEALTH_ASKED_MS after they were reported last, which is longer than whoever asks
 * waits between two attempts.
 */
#ifndef CORE_KUBE_CLIENT_HEALTH_H
#define CORE_KUBE_CLIENT_HEALTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "net/clock.h"

enum health_cause {
    HEALTH_UNREACHABLE, /* no connection can be opened */
    HEALTH_CREDENTIALS, /* the API server refuses them, or there are none */
    HEALTH_PERMISSION,  /* something that the program needs for itself is forbidden */
    HEALTH_LENGTH,      /* a request that the program made longer is refused for its length */
    HEALTH_EXPIRY,      /* a certificate or a token ends soon, or has ended */
    HEALTH_LOCK,        /* the operator asks for a lock that is not the shard's own */
    HEALTH_CAUSES
};

/* Rows of a cause that last. Of further ones, of which a missing role makes as many as there are
 * namespaces, one is logged each ten minutes. */
#define HEALTH_ROWS_MAX 32

#define HEALTH_ASKED_MS (40 * 60 * 1000)

struct health_report {
    enum health_cause cause;
    const char *subject; /* what it concerns; tells the rows of a cause apart */
    const char *message; /* what is wrong, as a sentence without a full stop */
    const char *remedy;  /* what to do about it */
};

struct health {
    const struct net_clock *clock;
    struct list rows;
    size_t count;
    uint64_t raised[HEALTH_CAUSES];     /* times */
    uint64_t further_ms[HEALTH_CAUSES]; /* when one without a row was logged last; 0: never */
};

/* `clock` NULL: the system's; outlives it. */
void health_init(struct health *h, const struct net_clock *clock);
void health_deinit(struct health *h);

/* It is so, or still is. The texts are copied, and cut. */
void health_raise(struct health *h, const struct health_report *r);
/* It is not so, or not any more. `subject` NULL: whatever it concerns. */
void health_clear(struct health *h, enum health_cause cause, const char *subject);

/* How many rows of that cause last. */
unsigned health_count(const struct health *h, enum health_cause cause);
/* The message of the one that has lasted longest; NULL: there is none. Valid until the table
 * changes. */
const char *health_message(const struct health *h, enum health_cause cause);
/* "credentials", as metrics, /status and /readyz say it. */
const char *health_cause_name(enum health_cause cause);

/* Adds the array "problems". */
void health_describe(const struct health *h, cJSON *root);
/* Appends PREFIX_problems and ..._problems_total. As base/prometheus.h. */
int health_write_metrics(const struct health *h, const char *prefix, struct buf *out);

#endif
