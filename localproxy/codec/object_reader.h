/* SPDX-License-Identifier: Apache-2.0 */
/*
 * object_reader.h - reads type, version and labels of one object (object_meta.h), however large,
 * while its body streams by.
 *
 * Held is only what they are read from. In JSON that is the object without all other values: those
 * are skipped, wherever they stand, since custom resources have their keys sorted, so that
 * annotations, managedFields and whatever is called `data` come before the version. In protobuf it
 * is the head. A body in gzip is inflated so far as it is read.
 *
 *     {"apiVersion":"v1","data":0,"kind":"Gear","metadata":{"annotations":0,"labels":{"a":"b"},...
 */
#ifndef LOCALPROXY_CODEC_OBJECT_READER_H
#define LOCALPROXY_CODEC_OBJECT_READER_H

#include "base/byte_budget.h"
#include "codec/object_meta.h"

/* Bytes that are held; of an object that needs more nothing is read. */
#define OBJECT_READER_HELD_MAX ((size_t)128 * 1024)
/* Of the budget, from which on no reader takes more: it can be done without, unlike what others
 * need the budget for. */
#define OBJECT_READER_MEMORY ((size_t)8 * 1024 * 1024)

struct object_reader;

/* `encoding` is JSON or PROTOBUF. What is held, and zlib's memory, is counted in `budget`, which
 * outlives it (NULL: no bound). NULL without memory. */
MUST_CHECK struct object_reader *object_reader_new(enum encoding encoding, bool gzip,
                                                   struct byte_budget *budget);
/* NULL is ignored. */
void object_reader_free(struct object_reader *r);

/* The next bytes of the body. False: nothing more is needed of it. */
MUST_CHECK bool object_reader_feed(struct object_reader *r, struct slice bytes);

/* After the last byte, or when nothing more is needed. False as object_meta_read, or what came is
 * no such object, was too long or there was no memory; `out` has views into the reader. */
MUST_CHECK bool object_reader_read(const struct object_reader *r, struct object_meta *out);

#endif
