/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"

struct pipeline {
    struct pipeline_options o;
    struct net_loop *loop;
    struct rules *rules;
    struct last_good *copy;
    struct delivery *delivery;
    bool taken; /* a document of the source was taken, or was known already */
    struct pipeline_status status;
};

static void report_change(void *data)
{
    struct pipeline *s = data;
    if (s->o.on_change != NULL) {
        s->o.on_change(s->o.data);
    }
}

/* ---- what the source tells ---- */

static void note_seen(struct pipeline *s, const struct offer *offer)
{
    struct pipeline_seen *seen = &s->status.seen;
    *seen = (struct pipeline_seen){.at = time(NULL), .refusal = offer->refusal};
    if (offer->rules != NULL) {
        seen->generation = rules_generation(offer->rules);
        memcpy(seen->checksum, rules_checksum(offer->rules), sizeof seen->checksum);
    }
}

/* For the log. */
static struct log_field generation_in_use(const struct pipeline *s)
{
    return s->rules == NULL ? log_str("inUse", "none")
                            : log_num("inUse", (int64_t)rules_generation(s->rules));
}

static void refuse_offer(struct pipeline *s, enum refusal refusal, const struct err *e)
{
    s->status.refusals[refusal]++;
    if (condition_raise(&s->status.refused, net_loop_now(s->loop), e->msg)) {
        log_error("refused rules, which changes nothing", log_str("error", e->msg),
                  log_str("reason", refusal_text(refusal)), generation_in_use(s));
    }
    report_change(s);
}

static bool in_use(const struct pipeline *s, const struct rules *rules)
{
    return s->rules != NULL && rules_generation(s->rules) == rules_generation(rules);
}

/* Takes over the reference. */
static void use_rules(struct pipeline *s, struct rules *rules, const char *place)
{
    rules_unref(s->rules);
    s->rules = rules;
    s->status.rules = rules;
    s->status.rules_at = time(NULL);
    s->status.taken++;
    log_info("accepted rules", log_str("namespace", rules_shard_namespace(rules)),
             log_str("shard", rules_shard_name(rules)),
             log_num("generation", (int64_t)rules_generation(rules)),
             log_str("checksum", rules_checksum(rules)),
             log_num("limits", (int64_t)rules_limit_count(rules)), log_str("from", place));
    if (s->copy != NULL) {
        last_good_store(s->copy, rules);
    }
    if (s->delivery != NULL) {
        delivery_set(s->delivery, rules);
    }
}

static int on_offer(void *data, const char *place, struct slice text, bool final, struct err *e)
{
    struct pipeline *s = data;
    struct offer offer;
    int rc = validate_rules(text, place, s->o.shard, s->rules, &offer, e);
    if (rc != 0 && !final) {
        rules_unref(offer.rules);
        return rc;
    }
    s->status.offers++;
    note_seen(s, &offer);
    if (rc != 0) {
        rules_unref(offer.rules);
        refuse_offer(s, offer.refusal, e);
        return rc;
    }
    (void)condition_clear(&s->status.refused);
    s->taken = true;
    if (in_use(s, offer.rules)) {
        rules_unref(offer.rules);
    } else {
        use_rules(s, offer.rules, place);
    }
    report_change(s);
    return 0;
}

static void on_trouble(void *data, enum source_trouble trouble, const struct err *e)
{
    struct pipeline *s = data;
    s->status.trouble = trouble;
    if (trouble == SOURCE_FINE) {
        (void)condition_clear(&s->status.source);
        return;
    }
    s->status.troubles[trouble]++;
    if (trouble != SOURCE_UNREACHABLE) {
        (void)condition_clear(&s->status.refused); /* that document is not there any more */
    }
    if (condition_raise(&s->status.source, net_loop_now(s->loop), e->msg)) {
        log_error("cannot read rules, which changes nothing", log_str("error", e->msg),
                  generation_in_use(s));
    }
    report_change(s);
}

static void on_warn(void *data, const char *text)
{
    struct pipeline *s = data;
    (void)snprintf(s->status.warning, sizeof s->status.warning, "%s", text);
    log_warn("rules will not be updated", log_str("warning", text));
}

static void on_blind(void *data, bool blind)
{
    struct pipeline *s = data;
    s->status.blind = blind;
}

const struct source_handlers pipeline_handlers = {
    .offer = on_offer,
    .trouble = on_trouble,
    .warn = on_warn,
    .blind = on_blind,
};

/* ---- what is known at the start ---- */

static int open_last_good(struct pipeline *s, struct err *e)
{
    if (s->o.to == NULL) {
        return 0;
    }
    s->copy = last_good_new(s->loop, s->o.to, &s->rules, e);
    if (s->copy == NULL) {
        return e->code;
    }
    s->status.copy = last_good_status(s->copy);
    s->status.rules = s->rules;
    if (s->rules == NULL) {
        return 0;
    }
    log_info("last known good rules read", log_str("path", s->o.to),
             log_num("generation", (int64_t)rules_generation(s->rules)),
             log_str("checksum", rules_checksum(s->rules)));
    int rc = validate_shard(s->rules, s->o.shard, s->o.to, e);
    if (rc != 0) {
        err_prefix(e, "the last known good copy must be removed first");
    }
    return rc;
}

/* That localproxy does not answer it need not be told. */
static const char *trouble(void *data)
{
    const struct pipeline *s = data;
    const struct pipeline_status *st = &s->status;
    const struct delivery_status *d = st->delivery;
    bool stuck = d->verdict == DELIVERY_REFUSED || d->verdict == DELIVERY_AHEAD;
    if (st->source.open) {
        return st->source.text;
    }
    if (st->refused.open) {
        return st->refused.text;
    }
    return stuck ? d->trouble.text : st->warning;
}

static int open_delivery(struct pipeline *s, struct err *e)
{
    if (s->o.control == NULL) {
        return 0;
    }
    struct delivery_options o = s->o.delivery;
    o.socket = s->o.control;
    o.trouble = s->o.once ? NULL : trouble;
    o.on_verdict = report_change;
    o.data = s;
    s->delivery = delivery_new(s->loop, &o, e);
    if (s->delivery == NULL) {
        return e->code;
    }
    s->status.delivery = delivery_status(s->delivery);
    if (s->rules != NULL) {
        delivery_set(s->delivery, s->rules);
    }
    return 0;
}

struct pipeline *pipeline_new(struct net_loop *l, const struct pipeline_options *o, struct err *e)
{
    struct pipeline *s = calloc(1, sizeof *s);
    if (s == NULL) {
        err_memory(e);
        return NULL;
    }
    s->o = *o;
    s->loop = l;
    if (open_last_good(s, e) != 0 || open_delivery(s, e) != 0) {
        pipeline_free(s);
        return NULL;
    }
    return s;
}

void pipeline_retry(struct pipeline *s)
{
    if (s->copy != NULL) {
        last_good_retry(s->copy);
    }
    if (s->delivery != NULL) {
        delivery_check(s->delivery);
    }
}

/* ---- what it says ---- */

const struct pipeline_status *pipeline_status(const struct pipeline *s)
{
    return &s->status;
}

static const char *why_no_rules(const struct pipeline_status *st)
{
    if (st->refused.open) {
        return st->refused.text;
    }
    return st->source.open ? st->source.text : "none received yet";
}

bool pipeline_ready(const struct pipeline *s, char *why, size_t size)
{
    const struct pipeline_status *st = &s->status;
    if (s->rules == NULL) {
        (void)snprintf(why, size, "no rules: %s", why_no_rules(st));
        return false;
    }
    if (st->delivery != NULL && st->delivery->verdict != DELIVERY_CONFIRMED) {
        (void)snprintf(why, size, "localproxy does not confirm the rules: %s",
                       st->delivery->trouble.open ? st->delivery->trouble.text : "no response yet");
        return false;
    }
    (void)snprintf(why, size, "ok");
    return true;
}

/* There is no good document. */
static enum pipeline_result source_result(const struct pipeline *s, char *why, size_t size)
{
    const struct pipeline_status *st = &s->status;
    bool may_come =
        st->trouble == SOURCE_UNREACHABLE || (st->trouble == SOURCE_MISSING && s->o.at_start);
    (void)snprintf(why, size, "%s", why_no_rules(st));
    return st->refused.open || !may_come ? PIPELINE_FAILED : PIPELINE_UNDER_WAY;
}

static enum pipeline_result delivery_result(const struct pipeline *s, char *why, size_t size)
{
    const struct delivery_status *d = s->status.delivery;
    if (d == NULL || d->verdict == DELIVERY_CONFIRMED ||
        (d->verdict == DELIVERY_AHEAD && s->o.at_start)) {
        return PIPELINE_DONE;
    }
    (void)snprintf(why, size, "%s",
                   d->trouble.open ? d->trouble.text : "localproxy did not respond");
    return d->verdict == DELIVERY_PENDING ? PIPELINE_UNDER_WAY : PIPELINE_FAILED;
}

enum pipeline_result pipeline_result(const struct pipeline *s, char *why, size_t size)
{
    const struct pipeline_status *st = &s->status;
    bool stuck = st->refused.open || st->source.open;
    if (stuck && !(s->o.at_start && s->rules != NULL)) {
        return source_result(s, why, size);
    }
    if (!stuck && !s->taken) {
        (void)snprintf(why, size, "no rules received");
        return PIPELINE_UNDER_WAY;
    }
    enum pipeline_result result = delivery_result(s, why, size);
    if (result == PIPELINE_DONE && st->copy != NULL && st->copy->trouble.open) {
        (void)snprintf(why, size, "%s", st->copy->trouble.text);
        return PIPELINE_FAILED;
    }
    return result;
}

void pipeline_free(struct pipeline *s)
{
    if (s != NULL) {
        delivery_free(s->delivery);
        last_good_free(s->copy);
        rules_unref(s->rules);
        free(s);
    }
}
