/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic/external_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "traffic/origin_text.h"

int external_table_init(struct external_table *x, struct schema_memory *m,
                        const struct traffic_counts *counts)
{
    x->memory = m;
    x->names = schema_alloc(m, counts->of[TRAFFIC_BOUND_NAMES] + 1, sizeof *x->names);
    x->urls = schema_alloc(m, counts->of[TRAFFIC_BOUND_URLS] + 1, sizeof *x->urls);
    x->http = schema_alloc(m, counts->of[TRAFFIC_BOUND_HTTP] + 1, sizeof *x->http);
    return x->names != NULL && x->urls != NULL && x->http != NULL ? 0 : -ENOMEM;
}

void external_table_deinit(struct external_table *x)
{
    pattern_scratch_free(x->scratch);
}

/* A copy with a NUL behind it. NULL: out of memory. */
static const char *copy(const struct external_table *x, struct slice text)
{
    char *made = schema_alloc(x->memory, text.len + 1, 1);
    if (made != NULL && text.len > 0) {
        memcpy(made, text.ptr, text.len);
    }
    return made;
}

static const char *method_of(const char *text)
{
    return text[0] == '\0' || strcmp(text, "*") == 0 ? NULL : text;
}

int external_table_names(struct external_table *x, size_t intercept,
                         const struct schema_texts *contents)
{
    for (size_t i = 0; i < contents->count; i++) {
        struct origin_host host;
        (void)origin_host_read(slice_str(contents->items[i]), &host); /* which was checked */
        const char *text = copy(x, slice_str(host.host));
        if (text == NULL) {
            return -ENOMEM;
        }
        x->names[x->name_count++] = (struct external_name){text, host.port, (uint16_t)intercept};
    }
    return 0;
}

static int add_url(struct external_table *x, size_t rule, const struct traffic_rest_rule *of)
{
    struct origin_url url;
    (void)origin_url_read(slice_str(of->url), &url);
    const char *host = copy(x, slice_str(url.at.host));
    const char *path = copy(x, slice_of(url.path.text, url.path.len));
    if (host == NULL || path == NULL) {
        return -ENOMEM;
    }
    x->url_rule[x->url_count] = (uint16_t)rule;
    x->urls[x->url_count] = (struct external_url){
        .host = host,
        .below_host = url.below_host,
        .https = url.https,
        .port = url.at.port,
        .below_path = url.below_path,
        .path = slice_of(path, url.path.len),
        .has_query = url.has_query,
        .query = url.query,
        .method = method_of(of->method),
        .row = (uint16_t)x->url_count,
    };
    x->url_count++;
    return 0;
}

int external_table_urls(struct external_table *x, size_t limiting, const struct schema_list *rules)
{
    const struct traffic_rest_rule *all = rules->items;
    int rc = 0;
    for (size_t i = 0; i < rules->count && rc == 0; i++) {
        rc = add_url(x, limiting, &all[i]);
    }
    return rc;
}

static int add_http(struct external_table *x, size_t rule, const struct traffic_http *of)
{
    struct external_http *m = &x->http[x->http_count];
    struct origin_host host;
    struct plain_path path;
    *m = (struct external_http){.match = of, .host = "", .method = method_of(of->method)};
    x->http_rule[x->http_count++] = (uint16_t)rule;
    if (of->host.exact[0] != '\0') {
        (void)origin_host_read(slice_str(of->host.exact), &host);
        m->host = copy(x, slice_str(host.host));
        m->port = host.port;
    }
    if (of->path.exact[0] != '\0') {
        plain_path_read(&path, slice_str(of->path.exact));
        m->path = slice_of(copy(x, slice_of(path.text, path.len)), path.len);
    }
    return m->host == NULL || (of->path.exact[0] != '\0' && m->path.ptr == NULL) ? -ENOMEM : 0;
}

int external_table_http(struct external_table *x, size_t fault, const struct schema_list *matches)
{
    const struct traffic_http *all = matches->items;
    int rc = 0;
    for (size_t i = 0; i < matches->count && rc == 0; i++) {
        rc = add_http(x, fault, &all[i]);
    }
    return rc;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct external_name *)a)->host, ((const struct external_name *)b)->host);
}

static int compare_urls(const void *a, const void *b)
{
    return strcmp(((const struct external_url *)a)->host, ((const struct external_url *)b)->host);
}

int external_table_build(struct external_table *x, bool patterns)
{
    qsort(x->names, x->name_count, sizeof *x->names, compare_names);
    qsort(x->urls, x->url_count, sizeof *x->urls, compare_urls);
    x->scratch = patterns ? pattern_scratch_new() : NULL;
    return patterns && x->scratch == NULL ? -ENOMEM : 0;
}
