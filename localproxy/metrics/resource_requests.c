/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics/resource_requests.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/prometheus.h"

static const char name[] = "cmesh_proxy_resource_requests_total";

/* A row's key is what it counts, "list all apps deployments/status": shorter than this. */
enum { KEY_SIZE = 320 };

struct row {
    struct table_node node;
    uint64_t count;
    char key[];
};

struct key {
    char text[KEY_SIZE];
    size_t len; /* KEY_SIZE: it is too long */
};

static void add(struct key *k, struct slice part, char after)
{
    if (k->len + part.len + 1 >= KEY_SIZE) {
        k->len = KEY_SIZE;
        return;
    }
    if (part.len > 0) {
        memcpy(k->text + k->len, part.ptr, part.len);
        k->len += part.len;
    }
    k->text[k->len++] = after;
}

/* Of a request without namespace it is not known here whether the resource has namespaces. */
static void make_key(const struct request_info *ri, struct key *k)
{
    k->len = 0;
    add(k, ri->verb_name, ' ');
    add(k, ri->namespace.len > 0 ? SLICE("namespace") : SLICE("all"), ' ');
    add(k, ri->group, ' ');
    add(k, ri->resource, ri->subresource.len > 0 ? '/' : '\0');
    if (ri->subresource.len > 0) {
        add(k, ri->subresource, '\0');
    }
}

/* So that nothing need be escaped, and the parts of a key can be told apart. */
static bool is_plain(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if ((c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '-') {
            return false;
        }
    }
    return true;
}

static bool may_have_row(const struct resource_requests *r, const struct request_info *ri)
{
    return r->rows.count < RESOURCE_REQUESTS_MAX && ri->verb != VERB_OTHER &&
           ri->verb != VERB_PROXY && is_plain(ri->group) && is_plain(ri->resource) &&
           is_plain(ri->subresource);
}

void resource_requests_count(struct resource_requests *r, const struct request_info *ri)
{
    struct key k;
    struct row *row = NULL;
    make_key(ri, &k);
    if (k.len < KEY_SIZE) {
        struct slice text = slice_of(k.text, k.len - 1);
        row = TABLE_FIND(&r->rows, text, struct row);
        if (row == NULL && may_have_row(r, ri)) {
            row = TABLE_PROVIDE(&r->rows, text, struct row, key);
        }
    }
    if (row != NULL) {
        row->count++;
    } else {
        r->others++;
    }
}

static struct row *row_of(struct table_node *n)
{
    return LIST_ITEM(n, struct row, node);
}

/* The next part of a key, which the caller has moved on from. */
static struct slice next_part(const char **at)
{
    size_t len = strcspn(*at, " ");
    struct slice part = slice_of(*at, len);
    *at += len + ((*at)[len] == ' ' ? 1 : 0);
    return part;
}

static void write_row(const struct row *row, struct buf *out)
{
    const char *at = row->key;
    struct slice verb = next_part(&at);
    struct slice scope = next_part(&at);
    struct slice group = next_part(&at);
    buf_printf(out, "%s{verb=\"%.*s\",scope=\"%.*s\",group=\"%.*s\",resource=\"%s\"} %" PRIu64 "\n",
               name, (int)verb.len, verb.ptr, (int)scope.len, scope.ptr, (int)group.len, group.ptr,
               at, row->count);
}

int resource_requests_write_metrics(const struct resource_requests *r, struct buf *out)
{
    prometheus_head(
        out, name, "counter",
        "Requests of the operator by verb, by resource, and by scope: in one namespace, "
        "or in all or of the cluster. The sample without a resource has what is left.");
    for (struct table_node *n = table_next(&r->rows, NULL); n != NULL;
         n = table_next(&r->rows, n)) {
        write_row(row_of(n), out);
    }
    return buf_printf(out, "%s{verb=\"\",scope=\"\",group=\"\",resource=\"\"} %" PRIu64 "\n", name,
                      r->others);
}

void resource_requests_deinit(struct resource_requests *r)
{
    struct table_node *n = table_next(&r->rows, NULL);
    while (n != NULL) {
        struct table_node *next = table_next(&r->rows, n);
        table_remove(&r->rows, n);
        free(row_of(n));
        n = next;
    }
    table_deinit(&r->rows);
}
