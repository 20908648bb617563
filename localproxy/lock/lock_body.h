/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lock_body.h - the forms in which a body can name the lock; shared by the sources of lock.h, for
 * no one else. Each returns what lock_rewrite_body returns, which tells -ENOBUFS and -ENOMEM, and
 * undoes what a failure leaves in `out` and `found`.
 */
#ifndef LOCALPROXY_LOCK_LOCK_BODY_H
#define LOCALPROXY_LOCK_LOCK_BODY_H

#include "lock/lock.h"

#define LOCK_PROTOBUF "application/vnd.kubernetes.protobuf"

/* A field of an object's field, by the names in JSON and the numbers in protobuf. */
struct lock_path {
    const char *object;
    const char *member;
    const char *object_pointer; /* RFC 6901 */
    const char *member_pointer;
    uint32_t object_number;
    uint32_t member_number;
};

/* What a name is. */
enum lock_found lock_compare(const struct lock_rule *rule, struct slice name);

MUST_CHECK int lock_rewrite_json(const struct lock_rule *rule, const struct lock_path *path,
                                 struct slice body, struct buf *out, enum lock_found *found,
                                 struct err *e);
/* RFC 6902. */
MUST_CHECK int lock_rewrite_json_patch(const struct lock_rule *rule, const struct lock_path *path,
                                       struct slice body, struct buf *out, enum lock_found *found,
                                       struct err *e);
/* JSON stays JSON, and byte for byte. */
MUST_CHECK int lock_rewrite_yaml(const struct lock_rule *rule, const struct lock_path *path,
                                 struct slice body, struct buf *out, enum lock_found *found,
                                 struct err *e);
MUST_CHECK int lock_rewrite_protobuf(const struct lock_rule *rule, const struct lock_path *path,
                                     struct slice body, struct buf *out, enum lock_found *found,
                                     struct err *e);

#endif
