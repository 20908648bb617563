/* SPDX-License-Identifier: Apache-2.0 */
/* Which form a body has. */
#include "lock/lock_body.h"

#include <errno.h>

#include "base/array.h"
#include "codec/encoding.h"

#define UNDERSTOOD                                                                                 \
    "leader election needs to read it; JSON, YAML and Kubernetes protobuf without "                \
    "Content-Encoding "                                                                            \
    "are understood"

/* k8s.io/api: ObjectMeta.name, LeaseCandidateSpec.leaseName. */
static const struct lock_path paths[] = {
    [LOCK_METADATA_NAME] = {"metadata", "name", "/metadata", "/metadata/name", 1, 1},
    [LOCK_SPEC_LEASE_NAME] = {"spec", "leaseName", "/spec", "/spec/leaseName", 2, 1},
};

typedef int rewrite_cb(const struct lock_rule *rule, const struct lock_path *path,
                       struct slice body, struct buf *out, enum lock_found *found, struct err *e);

static const struct {
    const char *media_type;
    rewrite_cb *rewrite;
} forms[] = {
    {"application/json", lock_rewrite_json},
    {LOCK_PROTOBUF, lock_rewrite_protobuf},
    {"application/yaml", lock_rewrite_yaml},
    {"application/apply-patch+yaml", lock_rewrite_yaml},
    {"application/merge-patch+json", lock_rewrite_json},
    {"application/strategic-merge-patch+json", lock_rewrite_json},
    {"application/json-patch+json", lock_rewrite_json_patch},
};

static rewrite_cb *find_form(struct slice content_type)
{
    struct slice type = encoding_media_type(content_type);
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        if (slice_ieq(type, slice_str(forms[i].media_type))) {
            return forms[i].rewrite;
        }
    }
    return NULL;
}

static int refuse_header(const char *header, struct slice value, struct err *e)
{
    return err_set(e, -ENOTSUP, "the body's %s is \"%.*s\": " UNDERSTOOD, header,
                   value.len > 100 ? 100 : (int)value.len, value.ptr);
}

/* The server takes a body without Content-Type for JSON. */
static int rewrite_untyped(const struct lock_rule *rule, const struct lock_path *path,
                           struct slice body, struct buf *out, enum lock_found *found,
                           struct err *e)
{
    int rc = lock_rewrite_json(rule, path, body, out, found, e);
    if (rc == -EINVAL && body.ptr[0] != '{') {
        return err_set(e, -ENOTSUP, "the body is not JSON and has no Content-Type: " UNDERSTOOD);
    }
    return rc;
}

int lock_rewrite_body(const struct lock_rule *rule, enum lock_field field,
                      struct slice content_type, struct slice content_encoding, struct slice body,
                      struct buf *out, enum lock_found *found, struct err *e)
{
    *found = LOCK_OTHER;
    if (rule->name[0] == '\0' || body.len == 0) {
        return 0;
    }
    if (content_encoding.len > 0 && !slice_ieq(content_encoding, SLICE("identity"))) {
        return refuse_header("Content-Encoding", content_encoding, e);
    }
    rewrite_cb *rewrite = content_type.len > 0 ? find_form(content_type) : rewrite_untyped;
    if (rewrite == NULL) {
        return refuse_header("Content-Type", content_type, e);
    }
    size_t before = out->len;
    int rc = rewrite(rule, &paths[field], body, out, found, e);
    if (rc != 0) {
        *found = LOCK_OTHER;
        buf_truncate(out, before);
    }
    if (rc == -ENOBUFS) {
        return err_set(e, rc, "the body with the lock's own name is too large");
    }
    return rc == -ENOMEM ? err_memory(e) : rc;
}
