/* SPDX-License-Identifier: Apache-2.0 */
#include "upstream/request_attributes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "codec/list_meta.h"
#include "kube/query.h"

/* Decoded values of more than that are nothing that a server would take. */
enum { VALUE_MAX = 1024 * 1024 };

static uint64_t read_version(struct slice value)
{
    uint64_t n = 0;
    for (size_t i = 0; i < value.len; i++) {
        if (value.ptr[i] < '0' || value.ptr[i] > '9' || n > UINT64_MAX / 10 - 1) {
            return DELIVERED_OPAQUE;
        }
        n = n * 10 + (uint64_t)(value.ptr[i] - '0');
    }
    return n;
}

/* As the API server's own conversion has it, Convert_Slice_string_To_bool: all but these is true,
 * nothing too. */
static bool is_true(struct slice value)
{
    return !slice_eq(value, SLICE("0")) && !slice_ieq(value, SLICE("false"));
}

struct reading {
    struct request_attributes *s;
    uint64_t view;
    unsigned done; /* bits of `parameters` */
};

static void read_selector(struct reading *r, struct slice key, struct slice value)
{
    r->view = hash_slice(hash_slice(r->view, key), value);
}

static void read_resource_version(struct reading *r, struct slice key, struct slice value)
{
    (void)key;
    r->s->version = r->s->verb == VERB_WATCH ? read_version(value) : 0;
    r->s->newest = r->s->newest && value.len == 0;
}

static void read_version_match(struct reading *r, struct slice key, struct slice value)
{
    (void)key;
    r->s->exact = slice_eq(value, SLICE("Exact"));
}

static void read_initial_events(struct reading *r, struct slice key, struct slice value)
{
    (void)key;
    r->s->initial_events = is_true(value);
}

static void read_bookmarks(struct reading *r, struct slice key, struct slice value)
{
    (void)key;
    r->s->bookmarks = is_true(value);
}

static void read_continue(struct reading *r, struct slice key, struct slice value)
{
    (void)key;
    if (r->s->verb == VERB_LIST && value.len > 0) {
        r->s->newest = false;
        r->s->page = list_meta_hash(value);
    }
}

static const struct parameter {
    struct slice key;
    void (*read)(struct reading *r, struct slice key, struct slice value);
} parameters[] = {
    {{"labelSelector", 13}, read_selector},
    {{"fieldSelector", 13}, read_selector},
    {{"shardSelector", 13}, read_selector}, /* Kubernetes 1.36, alpha */
    {{"resourceVersion", 15}, read_resource_version},
    {{"resourceVersionMatch", 20}, read_version_match},
    {{"sendInitialEvents", 17}, read_initial_events},
    {{"allowWatchBookmarks", 19}, read_bookmarks},
    {{"continue", 8}, read_continue},
};

/* The first of each counts, decoded, as for the server. */
static void read_parameter(struct reading *r, const struct query_piece *piece)
{
    for (size_t i = 0; i < ARRAY_LEN(parameters); i++) {
        const struct parameter *p = &parameters[i];
        if ((r->done & 1u << i) == 0 && query_equal(piece->key, p->key)) {
            struct buf value = BUF_INIT(VALUE_MAX);
            r->done |= 1u << i;
            if (query_decode(piece->value, &value) == 0) {
                p->read(r, p->key, buf_slice(&value));
            } else {
                p->read(r, p->key, piece->value); /* no memory: as it was written */
            }
            buf_reset(&value);
        }
    }
}

void request_attributes_read(struct request_attributes *s, const struct request_info *ri)
{
    *s = (struct request_attributes){
        .verb = ri->verb,
        .gateway = ri->gateway,
        .group = ri->group,
        .version_name = ri->version,
        .resource = ri->resource,
        .namespace = ri->namespace,
        .name = ri->name,
        .object = ri->verb != VERB_DELETECOLLECTION &&
                  (ri->subresource.len == 0 || slice_eq(ri->subresource, SLICE("status"))),
    };
    /* Each API server counts versions of its own. */
    uint64_t server = ri->gateway.len > 0 ? hash_slice(HASH_SEED, ri->gateway) : HASH_SEED;
    s->key.resource = hash_slice(hash_slice(server, ri->group), ri->resource);
    if (ri->verb != VERB_LIST && ri->verb != VERB_WATCH) {
        return;
    }
    s->newest = true;
    struct reading r = {
        .s = s, .view = hash_slice(hash_slice(s->key.resource, ri->version), ri->namespace)};
    struct slice rest = ri->query;
    for (struct query_piece piece; query_next(&rest, &piece);) {
        if (piece.valid) {
            read_parameter(&r, &piece);
        }
    }
    s->key.view = r.view;
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
    size_t size = from->gateway.len + from->group.len + from->version_name.len +
                  from->resource.len + from->namespace.len + from->name.len;
    char *memory = malloc(size + 1);
    if (memory == NULL) {
        return -ENOMEM;
    }
    char *at = memory;
    *to = *from;
    to->memory = memory;
    to->gateway = keep_text(&at, from->gateway);
    to->group = keep_text(&at, from->group);
    to->version_name = keep_text(&at, from->version_name);
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
