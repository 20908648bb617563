/* SPDX-License-Identifier: Apache-2.0 */
#include "validate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

static const char *const refusal_texts[REFUSALS] = {
    [REFUSAL_NONE] = "none",   [REFUSAL_INVALID] = "invalid",   [REFUSAL_SHARD] = "shard",
    [REFUSAL_OLDER] = "older", [REFUSAL_CONFLICT] = "conflict", [REFUSAL_MEMORY] = "memory",
};

const char *refusal_text(enum refusal r)
{
    return refusal_texts[r];
}

int validate_shard(const struct shard_document *d, const char *shard, const char *place,
                   struct err *e)
{
    if (shard == NULL || shard_document_is_of(d, shard)) {
        return 0;
    }
    return err_set(e, -EINVAL, "%s: these are the %s of shard %s/%s, not of %s", place,
                   control_document_text(d->kind), shard_document_namespace(d),
                   shard_document_shard(d), shard);
}

static bool same_shard(const struct rules *a, const struct rules *b)
{
    return strcmp(rules_shard_name(a), rules_shard_name(b)) == 0 &&
           strcmp(rules_shard_namespace(a), rules_shard_namespace(b)) == 0;
}

static enum refusal compare_with_current(const struct rules *rules, const struct rules *current,
                                         const char *place, struct err *e)
{
    uint64_t new = rules_generation(rules);
    uint64_t old = rules_generation(current);
    if (!same_shard(rules, current)) {
        err_set(e, -EINVAL,
                "%s: these are the rules of shard %s/%s, but those in use are of shard %s/%s",
                place, rules_shard_namespace(rules), rules_shard_name(rules),
                rules_shard_namespace(current), rules_shard_name(current));
        return REFUSAL_SHARD;
    }
    if (rules_older_than(rules, old)) {
        err_set(e, -ESTALE,
                "%s: generation %" PRIu64 " is older than generation %" PRIu64 ", which is in use",
                place, new, old);
        return REFUSAL_OLDER;
    }
    if (new == old && strcmp(rules_checksum(rules), rules_checksum(current)) != 0) {
        err_set(e, -EINVAL,
                "%s: generation %" PRIu64 " with %s, but that generation is in use with %s: "
                "rules that change need a higher generation",
                place, new, rules_checksum(rules), rules_checksum(current));
        return REFUSAL_CONFLICT;
    }
    return REFUSAL_NONE;
}

int validate_rules(struct slice text, const char *place, const char *shard,
                   const struct rules *current, struct offer *out, struct err *e)
{
    struct err why = ERR_INIT;
    *out = (struct offer){.rules = rules_parse_plain(text.ptr, text.len, &why)};
    if (out->rules == NULL) {
        out->refusal = why.code == -ENOMEM ? REFUSAL_MEMORY : REFUSAL_INVALID;
        return err_set(e, why.code, "%s: %s", place, why.msg);
    }
    const struct shard_document document = shard_document_rules(out->rules);
    if (validate_shard(&document, shard, place, &why) != 0) {
        out->refusal = REFUSAL_SHARD;
    } else if (current != NULL) {
        out->refusal = compare_with_current(out->rules, current, place, &why);
    }
    return out->refusal == REFUSAL_NONE ? 0 : err_set(e, why.code, "%s", why.msg);
}

int validate_traffic(struct slice text, const char *place, const char *shard,
                     struct shard_document *out, enum refusal *refusal, struct err *e)
{
    struct err why = ERR_INIT;
    int rc = shard_document_parse(CONTROL_TRAFFIC, text, out, &why);
    if (rc != 0) {
        *refusal = rc == -ENOMEM ? REFUSAL_MEMORY : REFUSAL_INVALID;
        return err_set(e, rc, "%s: %s", place, why.msg);
    }
    rc = validate_shard(out, shard, place, &why);
    *refusal = rc == 0 ? REFUSAL_NONE : REFUSAL_SHARD;
    return rc == 0 ? 0 : err_set(e, rc, "%s", why.msg);
}
