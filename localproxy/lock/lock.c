/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/lock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/splice.h"
#include "kube/access/access.h"
#include "kube/field_selector.h"
#include "kube/query.h"
#include "lock/lock_body.h"

#define NAMESPACE_FILE_MAX 256

static int copy_namespace(struct slice name, const char *from, char **out, struct err *e)
{
    const char *why = name_check_label(name);
    if (why != NULL) {
        return err_set(e, -EINVAL, "%s: \"%.*s\" is not a namespace: %s", from,
                       name.len > 100 ? 100 : (int)name.len, name.ptr, why);
    }
    *out = strndup(name.ptr, name.len);
    return *out == NULL ? err_memory(e) : 0;
}

/* The file's first word. */
static int read_namespace(const char *dir, char **out, struct err *e)
{
    char *path;
    if (asprintf(&path, "%s/namespace", dir) < 0) {
        return err_memory(e);
    }
    struct buf text = BUF_INIT(NAMESPACE_FILE_MAX);
    struct err why = ERR_INIT;
    int rc = file_read(path, &text, &why);
    const char *name = rc == 0 ? buf_cstr(&text) : NULL;
    if (rc == 0 && name == NULL) {
        rc = err_memory(e);
    } else if (rc == 0) {
        rc = copy_namespace(slice_of(name, strcspn(name, " \t\r\n")), path, out, e);
    } else {
        rc = rc == -ENOENT ? 0 : err_set(e, rc, "%s", why.msg);
    }
    buf_reset(&text);
    free(path);
    return rc;
}

int lock_pod_namespace(const char *flag, const char *env, const char *dir, char **out,
                       struct err *e)
{
    *out = NULL;
    if (flag != NULL && flag[0] != '\0') {
        return copy_namespace(slice_str(flag), "--pod-namespace", out, e);
    }
    if (env != NULL && env[0] != '\0') {
        return copy_namespace(slice_str(env), "$POD_NAMESPACE", out, e);
    }
    return read_namespace(dir != NULL ? dir : KUBE_SERVICE_ACCOUNT_DIR, out, e);
}

int lock_rule_init(struct lock_rule *rule, const struct rules *rules, const char *pod_namespace,
                   struct err *e)
{
    const char *name = rules != NULL ? rules_leader_election(rules) : NULL;
    *rule = (struct lock_rule){.name = ""};
    if (name == NULL) {
        return 0;
    }
    const char *shard = rules_shard_name(rules);
    const char *ns = rules_leader_election_namespace(rules);
    ns = ns != NULL ? ns : pod_namespace;
    ns = ns != NULL ? ns : rules_shard_namespace(rules);
    if (strlen(ns) > NAME_LABEL_MAX || !lock_name_of_shard(name, shard, rule->renamed)) {
        return err_set(e, -ENAMETOOLONG,
                       "leader election: \"%.100s" LOCK_NAME_BETWEEN
                       "%.100s\" in namespace \"%.100s\" is longer "
                       "than Kubernetes allows: %d characters for an object, %d for a namespace",
                       name, shard, ns, NAME_SUBDOMAIN_MAX, NAME_LABEL_MAX);
    }
    (void)snprintf(rule->namespace, sizeof rule->namespace, "%s", ns);
    (void)snprintf(rule->name, sizeof rule->name, "%s", name);
    return 0;
}

static bool is_lock_resource(const struct request_info *ri)
{
    if (ri->group.len == 0) {
        return slice_eq(ri->resource, SLICE("configmaps")) ||
               slice_eq(ri->resource, SLICE("endpoints"));
    }
    return slice_eq(ri->group, SLICE("coordination.k8s.io")) &&
           slice_eq(ri->resource, SLICE("leases"));
}

/* k8s.io/api/coordination: v1alpha1, v1alpha2, v1beta1. */
static bool is_candidate(const struct request_info *ri)
{
    return slice_eq(ri->group, SLICE("coordination.k8s.io")) &&
           slice_eq(ri->resource, SLICE("leasecandidates"));
}

enum lock_found lock_compare(const struct lock_rule *rule, struct slice name)
{
    if (slice_eq(name, slice_of(rule->name, strlen(rule->name)))) {
        return LOCK_RENAMED;
    }
    return slice_eq(name, slice_of(rule->renamed, strlen(rule->renamed))) ? LOCK_OWN : LOCK_OTHER;
}

/* The part of an encoded text that stands for a part of the decoded one. */
static struct slice encoded_part(struct slice encoded, size_t start, size_t len)
{
    size_t i = 0;
    size_t from = 0;
    for (size_t n = 0; n < start + len; n++) {
        from = n == start ? i : from;
        i += encoded.ptr[i] == '%' ? 3 : 1;
    }
    return slice_of(encoded.ptr + from, i - from);
}

static int finish_target(struct splice *s, struct err *e)
{
    int rc = splice_finish(s);
    if (rc == -ENOBUFS) {
        return err_set(e, rc, "the request target with the lock's own name is too long");
    }
    return rc == 0 ? 0 : err_set(e, rc, "out of memory");
}

static int examine_path(const struct lock_rule *rule, const struct request_info *ri,
                        struct slice target, struct buf *out, struct lock_request *result,
                        struct err *e)
{
    result->found = lock_compare(rule, ri->name);
    if (result->found != LOCK_RENAMED) {
        return 0;
    }
    result->needs_body = ri->verb == VERB_UPDATE || ri->verb == VERB_PATCH;
    struct splice s;
    splice_init(&s, target, out);
    splice_replace(&s, encoded_part(target, (size_t)(ri->name.ptr - ri->path.ptr), ri->name.len),
                   slice_str(rule->renamed));
    return finish_target(&s, e);
}

/* What a field selector says of the lock: all terms count, so one that demands a name is enough. */
static enum lock_found examine_terms(const struct lock_rule *rule, struct slice text)
{
    enum lock_found found = LOCK_OTHER;
    struct field_term t;
    int rc;
    while ((rc = field_selector_next(&text, &t)) > 0) {
        if (!t.negated && slice_eq(t.field, SLICE("metadata.name"))) {
            enum lock_found this = lock_compare(rule, t.value);
            found = this > found ? this : found;
        }
    }
    return rc < 0 ? LOCK_OTHER : found;
}

/* The lock's name is replaced in all terms about names, in those with `!=` as well. */
static void replace_terms(const struct lock_rule *rule, struct slice text, struct slice encoded,
                          struct splice *s)
{
    struct slice rest = text;
    struct field_term t;
    while (field_selector_next(&rest, &t) > 0) {
        if (slice_eq(t.field, SLICE("metadata.name")) &&
            lock_compare(rule, t.value) == LOCK_RENAMED) {
            struct slice part =
                encoded_part(encoded, (size_t)(t.value.ptr - text.ptr), t.value.len);
            splice_replace(s, part, slice_str(rule->renamed));
        }
    }
}

static int examine_selector(const struct lock_rule *rule, struct slice encoded, struct slice text,
                            struct slice target, struct buf *out, struct lock_request *result,
                            struct err *e)
{
    enum lock_found found = examine_terms(rule, text);
    /* No label selector will narrow this request: the server must read the query as we do. */
    int rc = found == LOCK_OTHER ? 0 : query_check(target, e);
    if (rc == 0 && found == LOCK_RENAMED) {
        struct splice s;
        splice_init(&s, target, out);
        replace_terms(rule, text, encoded, &s);
        rc = finish_target(&s, e);
    }
    result->found = found;
    return rc;
}

static int examine_query(const struct lock_rule *rule, struct slice target, struct buf *out,
                         struct lock_request *result, struct err *e)
{
    struct slice encoded;
    if (!query_find(query_of(target), SLICE("fieldSelector"), &encoded)) {
        return 0;
    }
    struct buf text = BUF_INIT(encoded.len);
    int rc = query_decode(encoded, &text);
    if (rc == 0) {
        struct slice plain = buf_slice(&text);
        rc = examine_selector(rule, encoded, plain, target, out, result, e);
    } else {
        rc = err_set(e, rc, "out of memory");
    }
    buf_reset(&text);
    return rc;
}

static int examine_request(const struct lock_rule *rule, const struct request_info *ri,
                           struct slice target, struct buf *out, struct lock_request *result,
                           struct err *e)
{
    bool named_in_path = ri->name.len > 0 && ri->name_mem == NULL;
    switch (ri->verb) {
    case VERB_GET:
    case VERB_UPDATE:
    case VERB_PATCH:
    case VERB_DELETE:
        return examine_path(rule, ri, target, out, result, e);
    case VERB_CREATE:
        result->needs_body = !named_in_path;
        return named_in_path ? examine_path(rule, ri, target, out, result, e) : 0;
    case VERB_LIST:
    case VERB_WATCH:
    case VERB_DELETECOLLECTION:
        return named_in_path ? examine_path(rule, ri, target, out, result, e)
                             : examine_query(rule, target, out, result, e);
    default:
        return 0;
    }
}

/* Its name says nothing of the lock. All of them in the pod's namespace are about leader election,
 * so none is narrowed or fenced. */
static void examine_candidate(const struct request_info *ri, struct lock_request *result)
{
    bool is_written = ri->verb == VERB_CREATE || ri->verb == VERB_UPDATE || ri->verb == VERB_PATCH;
    result->found = ri->verb == VERB_DELETECOLLECTION ? LOCK_OTHER : LOCK_OWN;
    result->needs_body = is_written;
    result->field = LOCK_SPEC_LEASE_NAME;
}

static bool is_elsewhere(const struct lock_rule *rule, const struct request_info *ri)
{
    return ri->namespace.len > 0 && slice_eq(ri->name, slice_str(rule->name)) &&
           is_lock_resource(ri) && (ri->group.len > 0 || ri->verb == VERB_UPDATE);
}

int lock_examine(const struct lock_rule *rule, const struct request_info *ri, struct slice target,
                 struct buf *out, struct lock_request *result, struct err *e)
{
    const struct lock_request nothing = {.found = LOCK_OTHER, .needs_body = false};
    *result = nothing;
    if (rule->name[0] == '\0' || !ri->is_resource) {
        return 0;
    }
    if (!slice_eq(ri->namespace, slice_str(rule->namespace))) {
        result->elsewhere = is_elsewhere(rule, ri);
        return 0;
    }
    if (is_candidate(ri)) {
        examine_candidate(ri, result);
        return 0;
    }
    if (!is_lock_resource(ri)) {
        return 0;
    }
    int rc = examine_request(rule, ri, target, out, result, e);
    if (rc != 0) {
        *result = nothing;
    }
    return rc;
}
