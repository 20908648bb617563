/* SPDX-License-Identifier: Apache-2.0 */
/*
 * list_meta.h - learns the resourceVersion and the `continue` token of a list from its body while
 * that streams by.
 *
 * The types that kube-apiserver is built with, Tables and PartialObjectMetadataLists have them at
 * the head of the body; custom resources, whose keys are sorted, at its end. So the first 16 KiB
 * are looked at, and then the last 16 KiB are kept. A body in gzip is inflated until both are
 * found. At most 16 KiB are held, and zlib's 40 KiB for gzip, only until all is known; a list that
 * has all in its first piece needs neither.
 *
 * Sources: k8s.io/apimachinery/pkg/apis/meta/v1 (ListMeta), pkg/runtime/generated.proto (Unknown).
 */
#ifndef LOCALPROXY_CODEC_LIST_META_H
#define LOCALPROXY_CODEC_LIST_META_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "codec/list_objects.h"

struct list_meta;

struct list_meta_result {
    uint64_t token;            /* list_meta_hash of metadata.continue; 0: there is none */
    uint64_t resource_version; /* 0: not learnt, or not a decimal number of 64 bits */
};

/* By the response's Content-Type and Content-Encoding (empty: none). What cannot be read (another
 * encoding than gzip, neither JSON nor protobuf) is learnt nothing of, without an error. NULL
 * without memory. */
MUST_CHECK struct list_meta *list_meta_new(struct slice content_type,
                                           struct slice content_encoding);
/* The same, and its objects are told to `cb` as they come, which takes the inflating of a body in
 * gzip to its end. */
MUST_CHECK struct list_meta *list_meta_new_counting(struct slice content_type,
                                                    struct slice content_encoding, bool namespaces,
                                                    list_objects_cb cb, void *data);
/* Whether they are; false also of a body that cannot be read, or not any more. */
bool list_meta_counts(const struct list_meta *m);
/* NULL is ignored. */
void list_meta_free(struct list_meta *m);

/* The next bytes of the body. Costs nothing once all is known, if no objects are told. */
void list_meta_feed(struct list_meta *m, struct slice data);

/* After the last byte. A body that broke off or is malformed, or memory that was short, leaves both
 * 0. */
void list_meta_end(struct list_meta *m, struct list_meta_result *result);

/* Identifies a token; never 0. The first 8 bytes of its SHA-256. */
uint64_t list_meta_hash(struct slice token);

#endif
