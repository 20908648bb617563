/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/certificate_set.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/secret.h"
#include "base/xalloc.h"
#include "crypto/digest.h"
#include "json/edit.h"
#include "json/field.h"

enum { ENTRY_MAX = 64 * 1024, BACKDATE_MAX = 3600, WHY_SIZE = 256 };

#define SERVING_NAME "cmesh-webhook"

static const struct {
    const char *cert;
    const char *key; /* NULL: it has none */
} fields[CERTIFICATE_ROLES] = {
    [CERTIFICATE_CURRENT] = {"ca.crt", "ca.key"},
    [CERTIFICATE_SERVING] = {"tls.crt", "tls.key"},
    [CERTIFICATE_NEXT] = {"next-ca.crt", "next-ca.key"},
    [CERTIFICATE_PREVIOUS] = {"previous-ca.crt", NULL},
};

/* ---- reading ---- */

static void entry_deinit(struct certificate_entry *entry)
{
    free(entry->cert);
    secret_free(entry->key);
    certificate_free(entry->read);
    *entry = (struct certificate_entry){0};
}

void certificate_set_deinit(struct certificate_set *s)
{
    for (size_t i = 0; i < CERTIFICATE_ROLES; i++) {
        entry_deinit(&s->entries[i]);
    }
}

/* NULL when the field is absent or not as a Secret has it. */
static char *read_text(const cJSON *data, const char *key)
{
    const cJSON *item = key == NULL ? NULL : field_get(data, key);
    struct buf text = BUF_INIT(ENTRY_MAX);
    char *out = NULL;
    if (!cJSON_IsString(item) || strlen(item->valuestring) > ENTRY_MAX) {
        return NULL;
    }
    if (xrc(base64_decode(slice_str(item->valuestring), &text)) == 0 && text.len > 0) {
        out = xstrndup((const char *)buf_data(&text), text.len);
    }
    secret_buf_reset(&text);
    return out;
}

void certificate_set_read(struct certificate_set *s, const cJSON *secret)
{
    const cJSON *data = field_get(secret, "data");
    for (size_t i = 0; i < CERTIFICATE_ROLES; i++) {
        struct certificate_entry *entry = &s->entries[i];
        struct err e = ERR_INIT;
        entry->cert = read_text(data, fields[i].cert);
        entry->key = read_text(data, fields[i].key);
        if (entry->cert != NULL) {
            entry->read = certificate_read(slice_str(entry->cert), NULL, &e);
            xerr(&e);
        }
    }
}

/* ---- judging ---- */

static int64_t due(const struct certificate *c)
{
    int64_t end = certificate_not_after(c);
    return end - (end - certificate_not_before(c)) / 3;
}

/* Why it is of no use; NULL: it can be trusted. */
static const char *authority_fault(const struct certificate_entry *ca, int64_t now)
{
    if (ca->read == NULL) {
        return ca->cert == NULL ? "is missing" : "cannot be read";
    }
    if (!certificate_is_authority(ca->read)) {
        return "is not a CA certificate";
    }
    if (certificate_not_after(ca->read) < now) {
        return "has expired";
    }
    return certificate_not_before(ca->read) > now ? "is not valid yet" : NULL;
}

/* Why it cannot sign; NULL: it can. */
static const char *signer_fault(const struct certificate_entry *ca, int64_t now)
{
    const char *fault = authority_fault(ca, now);
    if (fault != NULL) {
        return fault;
    }
    if (ca->key == NULL) {
        return "has no key";
    }
    return certificate_fits(ca->read, slice_str(ca->key)) ? NULL : "has a key that does not match";
}

static const char *missing_name(const struct certificate *c, const struct certificate_rules *r)
{
    for (size_t i = 0; i < r->name_count; i++) {
        if (!certificate_has_name(c, r->names[i])) {
            return r->names[i];
        }
    }
    return NULL;
}

static const char *serving_fault(const struct certificate_set *s, int64_t now)
{
    const struct certificate_entry *serving = &s->entries[CERTIFICATE_SERVING];
    if (serving->read == NULL) {
        return serving->cert == NULL ? "is missing" : "cannot be read";
    }
    if (serving->key == NULL || !certificate_fits(serving->read, slice_str(serving->key))) {
        return serving->key == NULL ? "has no key" : "has a key that does not match";
    }
    if (!certificate_is_server(serving->read)) {
        return "is not a server certificate";
    }
    if (certificate_not_after(serving->read) < now) {
        return "has expired";
    }
    if (certificate_not_before(serving->read) > now) {
        return "is not valid yet";
    }
    return certificate_signed_by(serving->read, s->entries[CERTIFICATE_CURRENT].read)
               ? NULL
               : "is signed by another CA";
}

bool certificate_set_serves(const struct certificate_set *s, const struct certificate_rules *r,
                            int64_t now, char why[WHY_SIZE])
{
    const char *fault = authority_fault(&s->entries[CERTIFICATE_CURRENT], now);
    const char *what = "the authority's certificate";
    if (fault == NULL) {
        fault = serving_fault(s, now);
        what = "the serving certificate";
    }
    if (fault != NULL) {
        (void)snprintf(why, WHY_SIZE, "%s %s", what, fault);
        return false;
    }
    const char *name = missing_name(s->entries[CERTIFICATE_SERVING].read, r);
    if (name != NULL) {
        (void)snprintf(why, WHY_SIZE, "the serving certificate does not name %.180s", name);
    }
    return name == NULL;
}

/* ---- planning ---- */

static void set_plan(struct certificate_plan *p, enum certificate_action action, const char *why)
{
    p->action = action;
    if (why != NULL) {
        (void)snprintf(p->why, sizeof p->why, "%s", why);
    }
}

/* Clients cannot be served, or not for long: without regard to who trusts what yet. */
static void plan_repair(const struct certificate_set *s, int64_t now, struct certificate_plan *p)
{
    p->broken = true;
    if (signer_fault(&s->entries[CERTIFICATE_CURRENT], now) == NULL) {
        p->action = CERTIFICATE_RENEW;
    } else if (signer_fault(&s->entries[CERTIFICATE_NEXT], now) == NULL) {
        p->action = CERTIFICATE_PROMOTE;
    } else {
        p->action = CERTIFICATE_RESTART;
    }
}

/* Whether another authority is needed, or on its way. */
static bool wants_next(const struct certificate_set *s, int64_t now, struct certificate_plan *p)
{
    const struct certificate_entry *current = &s->entries[CERTIFICATE_CURRENT];
    const char *fault = signer_fault(current, now);
    if (fault != NULL) {
        p->broken = true;
        (void)snprintf(p->why, sizeof p->why, "the authority's certificate %s", fault);
        return true;
    }
    if (due(current->read) <= now) {
        (void)snprintf(p->why, sizeof p->why, "two thirds of the authority's lifetime have passed");
        return true;
    }
    p->next_look = due(current->read);
    return s->entries[CERTIFICATE_NEXT].cert != NULL;
}

static void plan_rotation(const struct certificate_set *s, int64_t now, bool next_trusted,
                          struct certificate_plan *p)
{
    const char *fault = signer_fault(&s->entries[CERTIFICATE_NEXT], now);
    if (fault != NULL) {
        p->action = CERTIFICATE_PREPARE;
        if (s->entries[CERTIFICATE_NEXT].cert != NULL) {
            p->broken = true;
            (void)snprintf(p->why, sizeof p->why, "the next authority's certificate %s", fault);
        }
    } else if (next_trusted) {
        set_plan(p, CERTIFICATE_PROMOTE, "all webhook configurations trust the next authority");
        p->broken = false;
    }
}

/* Not when another one could not be good for longer. */
static bool may_renew(const struct certificate_set *s, int64_t now)
{
    const struct certificate_entry *current = &s->entries[CERTIFICATE_CURRENT];
    return signer_fault(current, now) == NULL &&
           certificate_not_after(s->entries[CERTIFICATE_SERVING].read) <
               certificate_not_after(current->read);
}

void certificate_set_plan(const struct certificate_set *s, const struct certificate_rules *r,
                          int64_t now, bool next_trusted, struct certificate_plan *p)
{
    *p = (struct certificate_plan){.action = CERTIFICATE_KEEP, .next_look = INT64_MAX};
    if (!certificate_set_serves(s, r, now, p->why)) {
        plan_repair(s, now, p);
        return;
    }
    if (wants_next(s, now, p)) {
        plan_rotation(s, now, next_trusted, p);
    }
    if (p->action != CERTIFICATE_KEEP) {
        return;
    }
    int64_t at = due(s->entries[CERTIFICATE_SERVING].read);
    int64_t end = certificate_not_after(s->entries[CERTIFICATE_SERVING].read) + 1;
    if (at <= now && may_renew(s, now)) {
        set_plan(p, CERTIFICATE_RENEW,
                 "two thirds of the serving certificate's lifetime have passed");
        return;
    }
    at = at <= now ? end : at;
    p->next_look = at < p->next_look ? at : p->next_look;
}

/* ---- changing ---- */

/* What of the Secret's data becomes another. The first failure stays, in `e` if it has words. */
struct change {
    struct edit edit;
    cJSON *data;
    const struct certificate_set *set;
    const struct certificate_rules *rules;
    int64_t now;
    struct err *e;
};

/* NULL removes the field. */
static void set_text(struct change *c, const char *key, const char *text)
{
    if (c->edit.rc != 0) {
        return; /* no copies of keys that nobody overwrites */
    }
    if (text == NULL) {
        edit_set(&c->edit, c->data, key, cJSON_CreateNull());
        return;
    }
    struct buf coded = BUF_INIT(3 * ENTRY_MAX);
    /* In one piece, so that no part of a key is left behind where the buffer grew. */
    (void)xptr(buf_reserve(&coded, 2 * strlen(text) + 8));
    xok(base64_encode(slice_str(text), &coded));
    edit_string(&c->edit, c->data, key, xptr(buf_cstr(&coded)));
    secret_buf_reset(&coded);
}

static void set_entry(struct change *c, enum certificate_role role, const char *cert,
                      const char *key)
{
    set_text(c, fields[role].cert, cert);
    if (fields[role].key != NULL) {
        set_text(c, fields[role].key, key);
    }
}

static void remove_entry(struct change *c, enum certificate_role role)
{
    set_entry(c, role, NULL, NULL);
}

/* Valid from before now, for those whose clock is behind. */
static struct certificate_spec spec_of(int64_t now, uint64_t seconds)
{
    int64_t life = (int64_t)seconds;
    int64_t back = life / 10 < BACKDATE_MAX ? life / 10 : BACKDATE_MAX;
    return (struct certificate_spec){.not_before = now - back, .not_after = now + life};
}

static void set_authority(struct change *c, enum certificate_role role,
                          struct certificate_pair *made)
{
    char name[64];
    struct certificate_spec spec = spec_of(c->now, c->rules->authority_seconds);
    (void)snprintf(name, sizeof name, CERTIFICATE_SET_AUTHORITY "%" PRId64, c->now);
    spec.common_name = name;
    edit_fail(&c->edit, certificate_make_authority(&spec, made, c->e));
    set_entry(c, role, made->cert, made->key);
}

/* A serving certificate of that authority. */
static void set_serving(struct change *c, const char *ca_cert, const char *ca_key)
{
    struct certificate_pair made = {0};
    struct certificate_spec spec = spec_of(c->now, c->rules->serving_seconds);
    if (c->edit.rc != 0) {
        return;
    }
    struct certificate *ca = certificate_read(slice_str(ca_cert), NULL, c->e);
    if (ca == NULL) {
        edit_fail(&c->edit, c->e->code);
        return;
    }
    if (certificate_not_after(ca) < spec.not_after) {
        spec.not_after = certificate_not_after(ca);
    }
    certificate_free(ca);
    spec.common_name = SERVING_NAME;
    spec.names = c->rules->names;
    spec.name_count = c->rules->name_count;
    edit_fail(&c->edit,
              certificate_make_server(&spec, slice_str(ca_cert), slice_str(ca_key), &made, c->e));
    set_entry(c, CERTIFICATE_SERVING, made.cert, made.key);
    certificate_pair_deinit(&made);
}

/* The authority that goes stays trusted for a while, for replicas that have not noticed. */
static void set_previous(struct change *c)
{
    const struct certificate_entry *old = &c->set->entries[CERTIFICATE_CURRENT];
    set_entry(c, CERTIFICATE_PREVIOUS, authority_fault(old, c->now) == NULL ? old->cert : NULL,
              NULL);
}

static void prepare(struct change *c)
{
    struct certificate_pair made = {0};
    set_authority(c, CERTIFICATE_NEXT, &made);
    certificate_pair_deinit(&made);
}

static void renew(struct change *c, bool broken)
{
    const struct certificate_entry *ca = &c->set->entries[CERTIFICATE_CURRENT];
    if (!broken) {
        remove_entry(c, CERTIFICATE_PREVIOUS);
    }
    set_serving(c, ca->cert, ca->key);
}

static void promote(struct change *c)
{
    const struct certificate_entry *next = &c->set->entries[CERTIFICATE_NEXT];
    set_entry(c, CERTIFICATE_CURRENT, next->cert, next->key);
    remove_entry(c, CERTIFICATE_NEXT);
    set_previous(c);
    set_serving(c, next->cert, next->key);
}

static void restart(struct change *c)
{
    struct certificate_pair made = {0};
    set_authority(c, CERTIFICATE_CURRENT, &made);
    remove_entry(c, CERTIFICATE_NEXT);
    set_previous(c);
    set_serving(c, made.cert, made.key);
    certificate_pair_deinit(&made);
}

static void restore(struct change *c)
{
    bool has_next = signer_fault(&c->set->entries[CERTIFICATE_NEXT], c->now) == NULL;
    for (int i = 0; i < CERTIFICATE_ROLES; i++) {
        const struct certificate_entry *entry = &c->set->entries[i];
        if (i != CERTIFICATE_NEXT || has_next) {
            set_entry(c, (enum certificate_role)i, entry->cert, entry->key);
        }
    }
    if (!has_next) {
        prepare(c);
    }
}

cJSON *certificate_set_change(const struct certificate_set *s, const struct certificate_rules *r,
                              int64_t now, const struct certificate_plan *plan, struct err *e)
{
    struct err local = ERR_INIT;
    struct change c = {.data = cJSON_CreateObject(), .set = s, .rules = r, .now = now};
    c.e = e == NULL ? &local : e;
    c.e->code = 0;
    switch (plan->action) {
    case CERTIFICATE_RENEW:
        renew(&c, plan->broken);
        break;
    case CERTIFICATE_PREPARE:
        prepare(&c);
        break;
    case CERTIFICATE_PROMOTE:
        promote(&c);
        break;
    case CERTIFICATE_RESTART:
        restart(&c);
        break;
    case CERTIFICATE_RESTORE:
        restore(&c);
        break;
    case CERTIFICATE_KEEP:
        edit_fail(&c.edit, -EINVAL);
        break;
    }
    if (xrc(c.edit.rc) == 0) {
        return c.data;
    }
    if (c.e->code == 0) {
        (void)err_set(c.e, c.edit.rc, "%s", err_text(c.edit.rc));
    }
    secret_json_delete(c.data);
    return NULL;
}

char *certificate_set_bundle(const struct certificate_set *s)
{
    struct buf out = BUF_INIT(CERTIFICATE_SET_BUNDLE_MAX); /* which has room for three */
    static const enum certificate_role order[] = {CERTIFICATE_CURRENT, CERTIFICATE_NEXT,
                                                  CERTIFICATE_PREVIOUS};
    for (size_t i = 0; i < ARRAY_LEN(order); i++) {
        const struct certificate_entry *entry = &s->entries[order[i]];
        if (entry->read != NULL) {
            buf_append_str(&out, entry->cert);
            buf_append_str(&out, entry->cert[strlen(entry->cert) - 1] != '\n' ? "\n" : "");
        }
    }
    return xptr(buf_take_str(&out));
}
