/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_get.h - what a request asks for, as API servers of tests read it.
 */
#ifndef TEST_SUPPORT_QUERY_GET_H
#define TEST_SUPPORT_QUERY_GET_H

#include "kube/query.h"

/* Appends the decoded value of the first `key` in the target's query, which is the only one that
 * kube-apiserver reads. 1 found, 0 not there, -ENOBUFS or -ENOMEM. */
static inline int query_get(struct slice target, const char *key, struct buf *out)
{
    struct slice value;
    if (!query_find(query_of(target), slice_str(key), &value)) {
        return 0;
    }
    int rc = query_decode(value, out);
    return rc == 0 ? 1 : rc;
}

#endif
