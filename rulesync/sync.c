/* SPDX-License-Identifier: Apache-2.0 */
#include "sync.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"

struct sync {
    struct sync_options o;
    struct net_loop *loop;
    struct rules *rules;
    struct copy *copy;
    struct deliver *deliver;
    bool taken; /* a document of the source was taken, or was known already */
    struct sync_status status;
};

static void changed(void *data)
{
    struct sync *s = data;
    if (s->o.on_change != NULL) {
        s->o.on_change(s->o.data);
    }
}

/* ---- what the source tells ---- */

static void see(struct sync *s, const struct offer *offer)
{
    struct sync_seen *seen = &s->status.seen;
    *seen = (struct sync_seen){.at = time(NULL), .refusal = offer->refusal};
    if (offer->rules != NULL) {
        seen->generation = rules_generation(offer->rules);
        memcpy(seen->checksum, rules_checksum(offer->rules), sizeof seen->checksum);
    }
}

static void refuse(struct sync *s, enum refusal refusal, const struct err *e)
{
    s->status.refusals[refusal]++;
    if (complaint_raise(&s->status.refused, net_loop_now(s->loop), e->msg)) {
        log_error("rules refused; those in use stay", log_str("error", e->msg),
                  log_str("reason", refusal_text(refusal)),
                  log_num("inUse", s->rules == NULL ? 0 : (int64_t)rules_generation(s->rules)));
    }
    changed(s);
}

static bool in_use(const struct sync *s, const struct rules *rules)
{
    return s->rules != NULL && rules_generation(s->rules) == rules_generation(rules);
}

/* Takes over the reference. */
static void use(struct sync *s, struct rules *rules, const char *place)
{
    rules_unref(s->rules);
    s->rules = rules;
    s->status.rules = rules;
    s->status.rules_at = time(NULL);
    s->status.taken++;
    log_info("rules taken", log_str("namespace", rules_shard_namespace(rules)),
             log_str("shard", rules_shard_name(rules)),
             log_num("generation", (int64_t)rules_generation(rules)),
             log_str("checksum", rules_checksum(rules)),
             log_num("limits", (int64_t)rules_limit_count(rules)), log_str("from", place));
    if (s->copy != NULL) {
        copy_store(s->copy, rules);
    }
    if (s->deliver != NULL) {
        deliver_set(s->deliver, rules);
    }
}

static int on_offer(void *data, const char *place, struct slice text, bool final, struct err *e)
{
    struct sync *s = data;
    struct offer offer;
    int rc = accept_rules(text, place, s->o.shard, s->rules, &offer, e);
    if (rc != 0 && !final) {
        rules_unref(offer.rules);
        return rc;
    }
    s->status.offers++;
    see(s, &offer);
    if (rc != 0) {
        rules_unref(offer.rules);
        refuse(s, offer.refusal, e);
        return rc;
    }
    (void)complaint_settle(&s->status.refused);
    s->taken = true;
    if (in_use(s, offer.rules)) {
        rules_unref(offer.rules);
    } else {
        use(s, offer.rules, place);
    }
    changed(s);
    return 0;
}

static void on_trouble(void *data, enum source_trouble trouble, const struct err *e)
{
    struct sync *s = data;
    s->status.trouble = trouble;
    if (trouble == SOURCE_FINE) {
        (void)complaint_settle(&s->status.source);
        return;
    }
    s->status.troubles[trouble]++;
    if (trouble != SOURCE_UNREACHABLE) {
        (void)complaint_settle(&s->status.refused); /* that document is not there any more */
    }
    if (complaint_raise(&s->status.source, net_loop_now(s->loop), e->msg)) {
        log_error("no rules to be read; those in use stay", log_str("error", e->msg),
                  log_num("inUse", s->rules == NULL ? 0 : (int64_t)rules_generation(s->rules)));
    }
    changed(s);
}

static void on_warn(void *data, const char *text)
{
    struct sync *s = data;
    (void)snprintf(s->status.warning, sizeof s->status.warning, "%s", text);
    log_warn("rules will not be updated", log_str("warning", text));
}

const struct source_handlers sync_handlers = {
    .offer = on_offer,
    .trouble = on_trouble,
    .warn = on_warn,
};

/* ---- what is known at the start ---- */

static int open_copy(struct sync *s, struct err *e)
{
    if (s->o.to == NULL) {
        return 0;
    }
    s->copy = copy_new(s->loop, s->o.to, &s->rules, e);
    if (s->copy == NULL) {
        return e->code;
    }
    s->status.copy = copy_status(s->copy);
    s->status.rules = s->rules;
    if (s->rules == NULL) {
        return 0;
    }
    log_info("last known good rules read", log_str("path", s->o.to),
             log_num("generation", (int64_t)rules_generation(s->rules)),
             log_str("checksum", rules_checksum(s->rules)));
    int rc = accept_shard(s->rules, s->o.shard, s->o.to, e);
    if (rc != 0) {
        err_prefix(e, "the last known good copy must be removed first");
    }
    return rc;
}

static int open_deliver(struct sync *s, struct err *e)
{
    if (s->o.control == NULL) {
        return 0;
    }
    struct deliver_options o = s->o.deliver;
    o.socket = s->o.control;
    o.on_verdict = changed;
    o.data = s;
    s->deliver = deliver_new(s->loop, &o, e);
    if (s->deliver == NULL) {
        return e->code;
    }
    s->status.deliver = deliver_status(s->deliver);
    if (s->rules != NULL) {
        deliver_set(s->deliver, s->rules);
    }
    return 0;
}

struct sync *sync_new(struct net_loop *l, const struct sync_options *o, struct err *e)
{
    struct sync *s = calloc(1, sizeof *s);
    if (s == NULL) {
        err_set(e, -ENOMEM, "out of memory");
        return NULL;
    }
    s->o = *o;
    s->loop = l;
    if (open_copy(s, e) != 0 || open_deliver(s, e) != 0) {
        sync_free(s);
        return NULL;
    }
    return s;
}

void sync_retry(struct sync *s)
{
    if (s->copy != NULL) {
        copy_retry(s->copy);
    }
    if (s->deliver != NULL) {
        deliver_check(s->deliver);
    }
}

/* ---- what it says ---- */

const struct sync_status *sync_status(const struct sync *s)
{
    return &s->status;
}

static const char *why_no_rules(const struct sync_status *st)
{
    if (st->refused.open) {
        return st->refused.text;
    }
    return st->source.open ? st->source.text : "none came yet";
}

bool sync_ready(const struct sync *s, char *why, size_t size)
{
    const struct sync_status *st = &s->status;
    if (s->rules == NULL) {
        (void)snprintf(why, size, "no rules: %s", why_no_rules(st));
        return false;
    }
    if (st->deliver != NULL && st->deliver->verdict != DELIVER_CONFIRMED) {
        (void)snprintf(why, size, "localproxy does not confirm the rules: %s",
                       st->deliver->trouble.open ? st->deliver->trouble.text : "not answered yet");
        return false;
    }
    (void)snprintf(why, size, "ok");
    return true;
}

/* There is no good document. */
static enum sync_result source_result(const struct sync *s, char *why, size_t size)
{
    const struct sync_status *st = &s->status;
    bool may_come =
        st->trouble == SOURCE_UNREACHABLE || (st->trouble == SOURCE_MISSING && s->o.at_start);
    (void)snprintf(why, size, "%s", why_no_rules(st));
    return st->refused.open || !may_come ? SYNC_FAILED : SYNC_UNDER_WAY;
}

static enum sync_result delivery_result(const struct sync *s, char *why, size_t size)
{
    const struct deliver_status *d = s->status.deliver;
    if (d == NULL || d->verdict == DELIVER_CONFIRMED ||
        (d->verdict == DELIVER_AHEAD && s->o.at_start)) {
        return SYNC_DONE;
    }
    (void)snprintf(why, size, "%s",
                   d->trouble.open ? d->trouble.text : "localproxy did not answer");
    return d->verdict == DELIVER_PENDING ? SYNC_UNDER_WAY : SYNC_FAILED;
}

enum sync_result sync_result(const struct sync *s, char *why, size_t size)
{
    const struct sync_status *st = &s->status;
    bool stuck = st->refused.open || st->source.open;
    if (stuck && !(s->o.at_start && s->rules != NULL)) {
        return source_result(s, why, size);
    }
    if (!stuck && !s->taken) {
        (void)snprintf(why, size, "no rules came");
        return SYNC_UNDER_WAY;
    }
    enum sync_result result = delivery_result(s, why, size);
    if (result == SYNC_DONE && st->copy != NULL && st->copy->trouble.open) {
        (void)snprintf(why, size, "%s", st->copy->trouble.text);
        return SYNC_FAILED;
    }
    return result;
}

void sync_free(struct sync *s)
{
    if (s != NULL) {
        deliver_free(s->deliver);
        copy_free(s->copy);
        rules_unref(s->rules);
        free(s);
    }
}
