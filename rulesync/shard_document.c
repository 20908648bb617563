/* SPDX-License-Identifier: Apache-2.0 */
#include "shard_document.h"

#include <string.h>

struct shard_document shard_document_rules(struct rules *r)
{
    return (struct shard_document){.kind = CONTROL_RULES, .rules = r};
}

struct shard_document shard_document_traffic(struct traffic *t)
{
    return (struct shard_document){.kind = CONTROL_TRAFFIC, .traffic = t};
}

int shard_document_parse(enum control_document kind, struct slice text, struct shard_document *out,
                         struct err *e)
{
    struct err why = ERR_INIT;
    *out = (struct shard_document){.kind = kind};
    if (kind == CONTROL_RULES) {
        out->rules = rules_parse_plain(text.ptr, text.len, &why);
    } else {
        out->traffic = traffic_parse(text.ptr, text.len, &why);
    }
    return shard_document_is_none(out) ? err_set(e, why.code, "%s", why.msg) : 0;
}

struct shard_document shard_document_ref(const struct shard_document *d)
{
    struct shard_document same = {.kind = d->kind};
    if (d->rules != NULL) {
        same.rules = rules_ref(d->rules);
    }
    if (d->traffic != NULL) {
        same.traffic = traffic_ref(d->traffic);
    }
    return same;
}

void shard_document_unref(struct shard_document *d)
{
    rules_unref(d->rules);
    traffic_unref(d->traffic);
    d->rules = NULL;
    d->traffic = NULL;
}

bool shard_document_is_none(const struct shard_document *d)
{
    return d->rules == NULL && d->traffic == NULL;
}

uint64_t shard_document_generation(const struct shard_document *d)
{
    return d->kind == CONTROL_RULES ? rules_generation(d->rules) : traffic_generation(d->traffic);
}

const char *shard_document_checksum(const struct shard_document *d)
{
    return d->kind == CONTROL_RULES ? rules_checksum(d->rules) : traffic_checksum(d->traffic);
}

const char *shard_document_namespace(const struct shard_document *d)
{
    return d->kind == CONTROL_RULES ? rules_shard_namespace(d->rules)
                                    : traffic_shard_namespace(d->traffic);
}

const char *shard_document_shard(const struct shard_document *d)
{
    return d->kind == CONTROL_RULES ? rules_shard_name(d->rules) : traffic_shard_name(d->traffic);
}

size_t shard_document_size(const struct shard_document *d)
{
    return d->kind == CONTROL_RULES ? rules_limit_count(d->rules)
                                    : traffic_policy_count(d->traffic);
}

bool shard_document_is_of(const struct shard_document *d, const char *shard)
{
    const char *ns = shard_document_namespace(d);
    size_t len = strlen(ns);
    return strncmp(shard, ns, len) == 0 && shard[len] == '/' &&
           strcmp(shard + len + 1, shard_document_shard(d)) == 0;
}

int shard_document_to_json(const struct shard_document *d, struct buf *out)
{
    return d->kind == CONTROL_RULES ? rules_to_json(d->rules, out)
                                    : traffic_to_json(d->traffic, out);
}

bool shard_document_same(const struct shard_document *a, const struct shard_document *b)
{
    if (shard_document_is_none(a) || shard_document_is_none(b)) {
        return shard_document_is_none(a) && shard_document_is_none(b);
    }
    return shard_document_generation(a) == shard_document_generation(b) &&
           strcmp(shard_document_checksum(a), shard_document_checksum(b)) == 0 &&
           strcmp(shard_document_namespace(a), shard_document_namespace(b)) == 0 &&
           strcmp(shard_document_shard(a), shard_document_shard(b)) == 0;
}
