/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "kube/name.h"

enum { SHARD_MAX = NAME_LABEL_MAX + NAME_SUBDOMAIN_MAX + 2 };

struct pipeline {
    struct pipeline_options o;
    struct net_loop *loop;
    struct shard_document used;
    struct last_good *copy;
    struct delivery *delivery;
    bool taken; /* a document of the source was taken, or was known already */
    bool told;  /* delivery has the document in use, or that there is none, or is to ask alone */
    bool unsettled; /* the document that is there may be half-written */
    struct pipeline_status status;
};

/* What the log says. */
struct texts {
    const char *refused;
    const char *accepted;
    const char *unreadable;
    const char *outdated;
    const char *found;
    const char *size;
};

static const struct texts texts[CONTROL_DOCUMENTS] = {
    [CONTROL_RULES] =
        {
            .refused = "refused rules, which changes nothing",
            .accepted = "accepted rules",
            .unreadable = "cannot read rules, which changes nothing",
            .outdated = "rules will not be updated",
            .found = "last known good rules read",
            .size = "limits",
        },
    [CONTROL_TRAFFIC] =
        {
            .refused = "refused traffic policies, which changes nothing",
            .accepted = "accepted traffic policies",
            .unreadable = "cannot read traffic policies, which changes nothing",
            .outdated = "traffic policies will not be updated",
            .found = "last known good traffic policies read",
            .size = "policies",
        },
};

static void report_change(void *data)
{
    struct pipeline *s = data;
    if (s->o.on_change != NULL) {
        s->o.on_change(s->o.data);
    }
}

/* ---- what the source tells ---- */

static void note_seen(struct pipeline *s, const struct shard_document *d, enum refusal refusal)
{
    struct pipeline_seen *seen = &s->status.seen;
    *seen = (struct pipeline_seen){.at = time(NULL), .refusal = refusal};
    if (!shard_document_is_none(d)) {
        seen->generation = shard_document_generation(d);
        memcpy(seen->checksum, shard_document_checksum(d), sizeof seen->checksum);
    }
}

/* For the log. */
static struct log_field generation_in_use(const struct pipeline *s)
{
    return shard_document_is_none(&s->used)
               ? log_str("inUse", "none")
               : log_num("inUse", (int64_t)shard_document_generation(&s->used));
}

static void refuse_offer(struct pipeline *s, enum refusal refusal, const struct err *e)
{
    s->status.refusals[refusal]++;
    if (condition_raise(&s->status.refused, net_loop_now(s->loop), e->msg)) {
        log_error(texts[s->o.document].refused, log_str("error", e->msg),
                  log_str("reason", refusal_text(refusal)), generation_in_use(s));
    }
    report_change(s);
}

/* Hands over what is in use, if the source has said something. */
static void tell_delivery(struct pipeline *s)
{
    bool rules = s->o.document == CONTROL_RULES;
    bool none = shard_document_is_none(&s->used);
    s->told = true;
    if (s->delivery == NULL) {
        return;
    }
    if (rules && !none) {
        delivery_set(s->delivery, s->used.rules);
    } else if (!rules && (!none || s->status.none)) {
        delivery_set_traffic(s->delivery, s->used.traffic);
    } else {
        delivery_check(s->delivery);
    }
}

/* The first word of the source lets go what the copy held. Of rules all was told at the start. */
static void note_heard(struct pipeline *s)
{
    s->status.heard = true;
    s->status.silent = false;
    s->unsettled = false;
    if (!s->told) {
        tell_delivery(s);
    }
}

/* Rules are told apart by their generation alone: others of the same one were refused. */
static bool in_use(const struct pipeline *s, const struct shard_document *d)
{
    if (d->kind == CONTROL_RULES && s->used.rules != NULL) {
        return rules_generation(s->used.rules) == rules_generation(d->rules);
    }
    return shard_document_same(&s->used, d);
}

/* Takes over the reference. */
static void use_document(struct pipeline *s, struct shard_document d, const char *place)
{
    shard_document_unref(&s->used);
    s->used = d;
    s->status.used_at = time(NULL);
    s->status.none = false;
    s->status.taken++;
    log_info(texts[d.kind].accepted, log_str("namespace", shard_document_namespace(&d)),
             log_str("shard", shard_document_shard(&d)),
             log_num("generation", (int64_t)shard_document_generation(&d)),
             log_str("checksum", shard_document_checksum(&d)),
             log_num(texts[d.kind].size, (int64_t)shard_document_size(&d)), log_str("from", place));
    if (s->copy != NULL && d.kind == CONTROL_RULES) {
        last_good_store(s->copy, d.rules);
    } else if (s->copy != NULL) {
        last_good_store_traffic(s->copy, d.traffic);
    }
    tell_delivery(s);
}

/* Of which shard traffic policies must be. NULL: of any. */
static const char *traffic_shard(const struct pipeline *s, char text[SHARD_MAX])
{
    const struct shard_document *rules = s->o.rules != NULL ? &s->o.rules->used : NULL;
    if (s->o.shard != NULL || rules == NULL || shard_document_is_none(rules)) {
        return s->o.shard;
    }
    (void)snprintf(text, SHARD_MAX, "%s/%s", shard_document_namespace(rules),
                   shard_document_shard(rules));
    return text;
}

static int validate(const struct pipeline *s, const char *place, struct slice text,
                    struct shard_document *out, enum refusal *refusal, struct err *e)
{
    char shard[SHARD_MAX];
    if (s->o.document == CONTROL_TRAFFIC) {
        return validate_traffic(text, place, traffic_shard(s, shard), out, refusal, e);
    }
    struct offer offer;
    int rc = validate_rules(text, place, s->o.shard, s->used.rules, &offer, e);
    *out = shard_document_rules(offer.rules);
    *refusal = offer.refusal;
    return rc;
}

static int on_offer(void *data, const char *place, struct slice text, bool final, struct err *e)
{
    struct pipeline *s = data;
    struct shard_document d;
    enum refusal refusal;
    int rc = validate(s, place, text, &d, &refusal, e);
    if (rc != 0 && !final) {
        s->unsettled = true;
        shard_document_unref(&d);
        return rc;
    }
    s->status.offers++;
    note_seen(s, &d, refusal);
    if (rc != 0) {
        shard_document_unref(&d);
        note_heard(s);
        refuse_offer(s, refusal, e);
        return rc;
    }
    (void)condition_clear(&s->status.refused);
    s->taken = true;
    if (in_use(s, &d)) {
        shard_document_unref(&d);
    } else {
        use_document(s, d, place);
    }
    note_heard(s);
    report_change(s);
    return 0;
}

/* Where there are no rules either, the folder or the ConfigMap is not there: the log has that. */
static bool logged_with_rules(const struct pipeline *s, enum source_trouble trouble)
{
    const struct pipeline *rules = s->o.rules;
    return rules != NULL && trouble != SOURCE_UNREADABLE && rules->status.source.open &&
           rules->status.trouble == trouble;
}

static void on_trouble(void *data, enum source_trouble trouble, const struct err *e,
                       enum log_level level)
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
    bool news = condition_raise(&s->status.source, net_loop_now(s->loop), e->msg);
    if (news && !logged_with_rules(s, trouble)) {
        log_at(level, texts[s->o.document].unreadable, log_str("error", e->msg),
               generation_in_use(s));
    }
    note_heard(s);
    report_change(s);
}

static void clear_source(struct pipeline *s)
{
    s->status.trouble = SOURCE_FINE;
    s->status.seen = (struct pipeline_seen){.at = 0};
    (void)condition_clear(&s->status.source);
    (void)condition_clear(&s->status.refused);
}

static void on_none(void *data)
{
    struct pipeline *s = data;
    clear_source(s);
    if (!s->status.none) {
        if (!shard_document_is_none(&s->used)) {
            log_info("there are no traffic policies any more", generation_in_use(s));
        }
        shard_document_unref(&s->used);
        s->status.none = true;
        s->status.used_at = time(NULL);
        if (s->copy != NULL) {
            last_good_store_traffic(s->copy, NULL);
        }
        tell_delivery(s);
    }
    note_heard(s);
    report_change(s);
}

/* What is told of a single file. Policies that were in use before it was one stay. */
static void on_silent(void *data)
{
    struct pipeline *s = data;
    clear_source(s);
    s->status.heard = true;
    s->status.silent = true;
    s->unsettled = false;
    report_change(s);
}

static void on_warn(void *data, const char *text)
{
    struct pipeline *s = data;
    (void)snprintf(s->status.warning, sizeof s->status.warning, "%s", text);
    log_warn(texts[s->o.document].outdated, log_str("warning", text));
}

static void on_blind(void *data, bool blind)
{
    struct pipeline *s = data;
    s->status.blind = blind;
}

const struct source_handlers pipeline_handlers = {
    .offer = on_offer,
    .trouble = on_trouble,
    .none = on_none,
    .silent = on_silent,
    .warn = on_warn,
    .blind = on_blind,
};

/* ---- what is known at the start ---- */

static int read_copy(struct pipeline *s, struct err *e)
{
    if (s->o.document == CONTROL_RULES) {
        s->copy = last_good_new(s->loop, s->o.to, &s->used.rules, e);
    } else {
        s->copy = last_good_new_traffic(s->loop, s->o.to, &s->used.traffic, e);
    }
    return s->copy == NULL ? e->code : 0;
}

/* Rules of another shard are an error that people must see. Traffic policies are replaced by what
 * the source has; until then there are none. */
static int check_copy(struct pipeline *s, struct err *e)
{
    char shard[SHARD_MAX];
    struct err why = ERR_INIT;
    if (s->o.document == CONTROL_RULES) {
        int rc = validate_shard(&s->used, s->o.shard, s->o.to, e);
        if (rc != 0) {
            err_prefix(e, "the last known good copy must be removed first");
        }
        return rc;
    }
    if (validate_shard(&s->used, traffic_shard(s, shard), s->o.to, &why) != 0) {
        log_warn("the stored traffic policies cannot be used and will be replaced",
                 log_str("error", why.msg));
        shard_document_unref(&s->used);
    }
    return 0;
}

static int open_last_good(struct pipeline *s, struct err *e)
{
    if (s->o.to == NULL) {
        return 0;
    }
    if (read_copy(s, e) != 0) {
        return e->code;
    }
    s->status.copy = last_good_status(s->copy);
    if (shard_document_is_none(&s->used)) {
        return 0;
    }
    log_info(texts[s->o.document].found, log_str("path", s->o.to),
             log_num("generation", (int64_t)shard_document_generation(&s->used)),
             log_str("checksum", shard_document_checksum(&s->used)));
    return check_copy(s, e);
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
    o.document = s->o.document;
    o.held = s->o.document == CONTROL_TRAFFIC;
    o.socket = s->o.control;
    o.trouble = s->o.once ? NULL : trouble;
    o.on_verdict = report_change;
    o.data = s;
    s->delivery = delivery_new(s->loop, &o, e);
    if (s->delivery == NULL) {
        return e->code;
    }
    s->status.delivery = delivery_status(s->delivery);
    if (s->used.rules != NULL) {
        delivery_set(s->delivery, s->used.rules);
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
    s->used.kind = o->document;
    s->told = o->document == CONTROL_RULES;
    s->status.used = &s->used;
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
    if (s->delivery != NULL && s->told) {
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
    if (shard_document_is_none(&s->used)) {
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
    if (stuck && !(s->o.at_start && s->used.rules != NULL)) {
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

bool pipeline_settled(const struct pipeline *s)
{
    const struct delivery_status *d = s->status.delivery;
    if (!s->status.heard || s->unsettled) {
        return false;
    }
    return d == NULL || !s->told || d->verdict != DELIVERY_PENDING || d->trouble.open ||
           (shard_document_is_none(&s->used) && !s->status.none);
}

void pipeline_free(struct pipeline *s)
{
    if (s != NULL) {
        delivery_free(s->delivery);
        last_good_free(s->copy);
        shard_document_unref(&s->used);
        free(s);
    }
}
