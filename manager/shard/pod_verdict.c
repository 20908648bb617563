/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/pod_verdict.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "enforcement/probe_answer.h"

static void say(char text[POD_VERDICT_TEXT_SIZE], const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void say(char text[POD_VERDICT_TEXT_SIZE], const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, POD_VERDICT_TEXT_SIZE, fmt, ap);
    va_end(ap);
}

static bool enforces(const struct status_facts *f, const char *shard, const struct probe_result *r)
{
    return r != NULL && r->state == PROBE_ANSWERED && r->enforcing && f->generation != 0 &&
           r->generation == f->generation && strcmp(r->checksum, f->checksum) == 0 &&
           strcmp(r->shard, shard) == 0;
}

/* No wonder while a pod starts; a ready one should have. */
static enum pod_verdict not_yet(const struct status_pod *p)
{
    return p->ready ? VERDICT_WAITING : VERDICT_STARTING;
}

static enum pod_verdict judge_silent(const struct status_pod *p, char text[POD_VERDICT_TEXT_SIZE])
{
    const struct probe_result *r = p->probe;
    if (r == NULL) {
        say(text, "has no address yet");
        return not_yet(p);
    }
    if (r->state == PROBE_WAITING) {
        say(text, "has not responded yet%s%s", r->message[0] != '\0' ? ": " : "", r->message);
        return not_yet(p);
    }
    if (r->required != 0) {
        say(text,
            "does not respond. Its rules have expired: it enforces none before generation %" PRIu64,
            r->required);
        return VERDICT_SILENT;
    }
    say(text, "does not respond: %s", r->message);
    return p->ready || r->generation != 0 ? VERDICT_SILENT : VERDICT_STARTING;
}

/* Rules that are not ours, and will not become so by waiting. */
static bool has_other_rules(const struct status_facts *f, const char *shard,
                            const struct probe_result *r, char text[POD_VERDICT_TEXT_SIZE])
{
    if (strcmp(r->shard, shard) != 0) {
        say(text,
            "enforces the rules of shard %s: it was started for that one, and must be restarted",
            r->shard);
    } else if (r->generation > f->generation) {
        say(text, "enforces generation %" PRIu64 ", which is newer than what is published",
            r->generation);
    } else if (r->generation == f->generation && strcmp(r->checksum, f->checksum) != 0) {
        say(text, "enforces different rules of the same generation %" PRIu64, r->generation);
    } else {
        return false;
    }
    return true;
}

/* Rules that a newer manager writes may have what older sidecars do not know. */
static void say_refused(const struct probe_result *r, char text[POD_VERDICT_TEXT_SIZE])
{
    if (probe_is_other_version(r)) {
        say(text, "runs cmesh %s, the manager %s: a restart may help: %s", r->version,
            CMESH_VERSION, r->message);
    } else {
        say(text, "%s", r->message);
    }
}

static enum pod_verdict judge_answer(const struct status_facts *f, const char *shard,
                                     const struct status_pod *p, char text[POD_VERDICT_TEXT_SIZE])
{
    const struct probe_result *r = p->probe;
    if (r->generation != 0 && has_other_rules(f, shard, r, text)) {
        return VERDICT_OTHER_RULES;
    }
    if (r->generation != 0 && r->generation == f->generation) {
        /* It took ours, whatever rulesync complains of since. */
        say(text, "is still finishing requests under earlier rules");
        return VERDICT_WAITING;
    }
    if (r->message[0] != '\0') {
        say_refused(r, text);
        return VERDICT_REFUSED;
    }
    if (r->generation == 0) {
        say(text, "has no rules, and shows nothing until it has some");
        return not_yet(p);
    }
    say(text, "still enforces generation %" PRIu64, r->generation);
    return VERDICT_WAITING;
}

/* ---- bypassing ---- */

/* Whether it is judged by clients that do not come. */
static bool should_have_clients(const struct status_facts *f, const struct status_pod *p)
{
    const struct probe_result *r = p->probe;
    return f->bypass_wait_ms != 0 && !p->allow_bypass && p->ready && !p->ending &&
           p->ready_since != 0 && r != NULL && r->state == PROBE_ANSWERED && r->unused;
}

uint64_t pod_verdict_patience_ms(const struct status_facts *f, const struct status_pod *p)
{
    if (!should_have_clients(f, p)) {
        return 0;
    }
    int64_t ready_ms = f->now_ms - p->ready_since * 1000;
    int64_t ms = ready_ms < p->probe->up_ms ? ready_ms : p->probe->up_ms;
    int64_t left = (int64_t)f->bypass_wait_ms - (ms > 0 ? ms : 0);
    return left > 0 ? (uint64_t)left : 0;
}

/* Of one whose proxy enforces the rules. */
static bool is_bypassed(const struct status_facts *f, const struct status_pod *p,
                        char text[POD_VERDICT_TEXT_SIZE])
{
    if (p->allow_bypass || !p->ready || p->ending) {
        return false;
    }
    if (p->probe->bypassed) {
        say(text, "has connections to the API server that are not localproxy's");
    } else if (should_have_clients(f, p) && pod_verdict_patience_ms(f, p) == 0) {
        say(text, "no request has come to localproxy since it runs");
    } else {
        return false;
    }
    return true;
}

enum pod_verdict pod_verdict(const struct status_facts *f, const char *shard,
                             const struct status_pod *p, char text[POD_VERDICT_TEXT_SIZE])
{
    bool answered = p->probe != NULL && p->probe->state == PROBE_ANSWERED;
    text[0] = '\0';
    if (p->over || (p->ending && !answered)) {
        return VERDICT_GONE;
    }
    if (!p->sidecar) {
        say(text, "has no sidecar: its operator sees everything%s",
            f->left_out ? ". It gets none in this namespace, which the webhook for pods leaves out"
                        : "");
        return VERDICT_NO_SIDECAR;
    }
    if (p->other_shard != NULL) {
        say(text, "is selected by %s too", p->other_shard);
    }
    bool well = enforces(f, shard, p->probe);
    if (well && p->probe->expired) {
        say(text, "shows nothing: its rules are not valid, for it could not renew its Lease");
        return not_yet(p);
    }
    if (well && is_bypassed(f, p, text)) {
        return VERDICT_BYPASSED;
    }
    if (p->other_shard != NULL) {
        return well ? VERDICT_CONTESTED : VERDICT_OVERLAPPING;
    }
    if (well) {
        return VERDICT_ENFORCES;
    }
    return answered ? judge_answer(f, shard, p, text) : judge_silent(p, text);
}
