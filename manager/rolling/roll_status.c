/* SPDX-License-Identifier: Apache-2.0 */
#include "rolling/roll_status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/slice.h"

enum { PODS_MAX = 1000000 };

static const char *const states[ROLL_STATES] = {
    [ROLL_STATE_NONE] = "",           [ROLL_STATE_REFUSED] = "Refused",
    [ROLL_STATE_WAITING] = "Waiting", [ROLL_STATE_BLOCKED] = "Blocked",
    [ROLL_STATE_STUCK] = "Stuck",     [ROLL_STATE_EVICTING] = "Evicting",
    [ROLL_STATE_PAUSED] = "Paused",   [ROLL_STATE_RESUMED] = "Resumed",
    [ROLL_STATE_DONE] = "Done",
};

const char *roll_state_text(enum roll_state state)
{
    return states[state];
}

void roll_status_print(const struct roll_status *s, char out[ROLL_STATUS_SIZE])
{
    (void)snprintf(out, ROLL_STATUS_SIZE, "%zu/%zu%s%s%s%s state=%s%s%s", s->done, s->total,
                   s->shard[0] == '\0' ? "" : " shard=", s->shard,
                   s->pod[0] == '\0' ? "" : " pod=", s->pod, states[s->state],
                   s->message[0] == '\0' ? "" : ": ", s->message);
}

void roll_status_label(const struct roll_status *s, char out[ROLL_STATUS_LABEL_SIZE])
{
    const char *state = roll_state_text(s->state);
    (void)snprintf(out, ROLL_STATUS_LABEL_SIZE, "%s-%zu-of-%zu", state, s->done, s->total);
}

/* Whether what is in the way is a pod that was made of the new template. */
static bool is_of_new_pod(const struct roll_step *step)
{
    return step->what == ROLL_WAIT && step->gate != ROLL_ENDING && step->gate != ROLL_MISSING &&
           step->gate != ROLL_UNSEEN;
}

void roll_stuck_print(const struct roll_status *s, const struct roll_step *step,
                      char out[ROLL_STUCK_SIZE])
{
    bool pod = s->pod[0] != '\0';
    bool renewed = pod && is_of_new_pod(step);
    const char *until = "that is mended";
    if (step->what == ROLL_WAIT && step->gate == ROLL_ENDING) {
        until = "it is gone";
    } else if (renewed) {
        until = "that is mended, the template is changed or rolled back";
    }
    (void)snprintf(out, ROLL_STUCK_SIZE,
                   "%s%s%s: %s. No further pod is evicted until %s, or the label is taken away.",
                   pod ? "Pod " : "", pod ? s->pod : "The roll waits",
                   renewed ? " of the new revision" : "", s->message, until);
}

/* ---- reading ---- */

/* Moves behind it if it is there. */
static bool skip(const char **at, const char *text)
{
    size_t len = strlen(text);
    if (strncmp(*at, text, len) != 0) {
        return false;
    }
    *at += len;
    return true;
}

static bool read_number(const char **at, size_t *out)
{
    char *end = NULL;
    if (**at < '0' || **at > '9') {
        return false;
    }
    unsigned long n = strtoul(*at, &end, 10);
    *out = n;
    *at = end;
    return n <= PODS_MAX;
}

/* A name, up to a space. */
static bool read_name(const char **at, char out[NAME_SUBDOMAIN_MAX + 1])
{
    struct slice name = {*at, strcspn(*at, " ")};
    if (name_check_subdomain(name) != NULL) {
        return false;
    }
    memcpy(out, name.ptr, name.len);
    out[name.len] = '\0';
    *at += name.len;
    return true;
}

static enum roll_state read_state(const char *at)
{
    size_t len = strcspn(at, ":");
    for (size_t i = ROLL_STATE_NONE + 1; i < ROLL_STATES; i++) {
        if (strlen(states[i]) == len && strncmp(at, states[i], len) == 0) {
            return (enum roll_state)i;
        }
    }
    return ROLL_STATE_NONE;
}

void roll_status_parse(const char *text, struct roll_status *out)
{
    struct roll_status s = {.state = ROLL_STATE_NONE};
    const char *at = text;
    *out = s;
    if (!read_number(&at, &s.done) || !skip(&at, "/") || !read_number(&at, &s.total)) {
        return;
    }
    if ((skip(&at, " shard=") && !read_name(&at, s.shard)) ||
        (skip(&at, " pod=") && !read_name(&at, s.pod)) || !skip(&at, " state=")) {
        return;
    }
    s.state = read_state(at);
    if (s.state != ROLL_STATE_NONE) {
        *out = s;
    }
}
