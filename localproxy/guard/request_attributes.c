/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/request_attributes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "codec/list_meta.h"
#include "kube/query.h"

/* A version that is no number: below every ceiling, and equal to nothing that was given out. */
enum { VERSION_OPAQUE = 1 };

static uint64_t read_version(struct slice value)
{
    uint64_t n = 0;
    for (size_t i = 0; i < value.len; i++) {
        if (value.ptr[i] < '0' || value.ptr[i] > '9' || n > UINT64_MAX / 10 - 1) {
            return VERSION_OPAQUE;
        }
        n = n * 10 + (uint64_t)(value.ptr[i] - '0');
    }
    return n;
}

/* As strconv.ParseBool and the API server's own conversion have it: all but these is true. */
static bool is_true(struct slice value)
{
    return value.len > 0 && !slice_eq(value, SLICE("0")) && !slice_ieq(value, SLICE("false"));
}

static uint64_t read_token(struct slice value)
{
    struct buf token = BUF_INIT(64 * 1024);
    uint64_t hash = 0;
    if (value.len > 0 && query_decode(value, &token) == 0) {
        hash = list_meta_hash(buf_slice(&token));
    }
    buf_reset(&token);
    return hash;
}

static void read_parameter(struct request_attributes *s, const struct query_piece *piece,
                           uint64_t *view)
{
    if (query_equal(piece->key, SLICE("labelSelector")) ||
        query_equal(piece->key, SLICE("fieldSelector"))) {
        *view = hash_slice(hash_slice(*view, piece->key), piece->value);
    } else if (s->verb == VERB_WATCH && query_equal(piece->key, SLICE("resourceVersion"))) {
        s->version = read_version(piece->value);
    } else if (s->verb == VERB_WATCH && query_equal(piece->key, SLICE("sendInitialEvents"))) {
        s->initial_events = is_true(piece->value);
    } else if (s->verb == VERB_WATCH && query_equal(piece->key, SLICE("allowWatchBookmarks"))) {
        s->bookmarks = is_true(piece->value);
    } else if (s->verb == VERB_LIST && query_equal(piece->key, SLICE("resourceVersion"))) {
        s->newest = s->newest && piece->value.len == 0;
    } else if (s->verb == VERB_LIST && query_equal(piece->key, SLICE("continue"))) {
        s->newest = s->newest && piece->value.len == 0;
        s->page = read_token(piece->value);
    }
}

void request_attributes_read(struct request_attributes *s, const struct request_info *ri)
{
    *s = (struct request_attributes){
        .verb = ri->verb,
        .group = ri->group,
        .resource = ri->resource,
        .namespace = ri->namespace,
        .name = ri->name,
    };
    if (ri->verb != VERB_LIST && ri->verb != VERB_WATCH) {
        return;
    }
    s->newest = ri->verb == VERB_LIST;
    s->key.resource = hash_slice(hash_slice(HASH_SEED, ri->group), ri->resource);
    uint64_t view = hash_slice(hash_slice(s->key.resource, ri->version), ri->namespace);
    struct slice rest = ri->query;
    for (struct query_piece piece; query_next(&rest, &piece);) {
        if (piece.valid) {
            read_parameter(s, &piece, &view);
        }
    }
    s->key.view = view;
}

bool request_attributes_is_selected(const struct request_attributes *s)
{
    return s->verb == VERB_LIST || s->verb == VERB_WATCH || s->verb == VERB_DELETECOLLECTION;
}

bool request_verb_is_write(enum request_verb verb)
{
    return verb == VERB_CREATE || verb == VERB_UPDATE || verb == VERB_PATCH ||
           verb == VERB_DELETE || verb == VERB_DELETECOLLECTION;
}

const struct rules_entry *request_attributes_entry(const struct request_attributes *s,
                                                   const struct rules *r)
{
    return r != NULL ? rules_match(r, s->group, s->resource) : NULL;
}

uint64_t request_attributes_selector(const struct request_attributes *s, const struct rules *r)
{
    const struct rules_entry *entry = request_attributes_entry(s, r);
    return entry != NULL ? entry->id : 0;
}

static struct slice keep_text(char **at, struct slice text)
{
    struct slice kept = slice_of(*at, text.len);
    if (text.len > 0) {
        memcpy(*at, text.ptr, text.len);
    }
    *at += text.len;
    return kept;
}

int request_attributes_keep(struct request_attributes *to, const struct request_attributes *from)
{
    size_t size = from->group.len + from->resource.len + from->namespace.len + from->name.len;
    char *memory = malloc(size + 1);
    if (memory == NULL) {
        return -ENOMEM;
    }
    char *at = memory;
    *to = *from;
    to->memory = memory;
    to->group = keep_text(&at, from->group);
    to->resource = keep_text(&at, from->resource);
    to->namespace = keep_text(&at, from->namespace);
    to->name = keep_text(&at, from->name);
    return 0;
}

void request_attributes_deinit(struct request_attributes *s)
{
    free(s->memory);
    s->memory = NULL;
}

void request_attributes_to_request_info(const struct request_attributes *s, struct request_info *ri)
{
    *ri = (struct request_info){
        .is_resource = true,
        .verb = s->verb,
        .group = s->group,
        .resource = s->resource,
        .namespace = s->namespace,
        .name = s->name,
    };
}
