/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic/external_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/ensure.h"
#include "base/grow.h"

struct external_text {
    struct external_text *next;
    char text[];
};

int external_table_init(struct external_table *x, size_t urls, size_t http)
{
    x->urls = calloc(urls + 1, sizeof *x->urls);
    x->http = calloc(http + 1, sizeof *x->http);
    return x->urls != NULL && x->http != NULL ? 0 : -ENOMEM;
}

void external_table_deinit(struct external_table *x)
{
    for (size_t i = 0; i < x->pattern_count; i++) {
        pattern_free(x->patterns[i]);
    }
    while (x->texts != NULL) {
        struct external_text *t = x->texts;
        x->texts = t->next;
        free(t);
    }
    pattern_scratch_free(x->scratch);
    free(x->names);
    free(x->urls);
    free(x->http);
}

const char *external_table_text(struct external_table *x, struct slice text)
{
    struct external_text *t = malloc(sizeof *t + text.len + 1);
    if (t == NULL) {
        return NULL;
    }
    if (text.len > 0) {
        memcpy(t->text, text.ptr, text.len);
    }
    t->text[text.len] = '\0';
    t->next = x->texts;
    x->texts = t;
    return t->text;
}

int external_table_pattern(struct external_table *x, const char *text, bool any_case,
                           const struct pattern **out, struct err *e)
{
    struct pattern *p = NULL;
    if (x->pattern_count == TRAFFIC_PATTERNS_MAX) {
        return err_set(e, -E2BIG, "Too many: must have at most %d expressions in all",
                       TRAFFIC_PATTERNS_MAX);
    }
    int rc = any_case ? pattern_compile_any_case(text, &p, e) : pattern_compile(text, &p, e);
    if (rc == 0) {
        x->patterns[x->pattern_count++] = p;
        *out = p;
    }
    return rc;
}

int external_table_name(struct external_table *x, size_t intercept, const struct origin_host *host)
{
    struct external_name *names = grow_array(x->names, x->name_count, &x->name_room, sizeof *names);
    const char *text = external_table_text(x, slice_str(host->host));
    x->names = names != NULL ? names : x->names;
    if (names == NULL || text == NULL) {
        return -ENOMEM;
    }
    x->names[x->name_count++] = (struct external_name){text, host->port, (uint16_t)intercept};
    return 0;
}

int external_table_url(struct external_table *x, size_t rule, const struct origin_url *url,
                       const char *method)
{
    ensure(x->url_count < TRAFFIC_EXTERNAL_MAX);
    const char *host = external_table_text(x, slice_str(url->at.host));
    const char *path = external_table_text(x, slice_of(url->path.text, url->path.len));
    const char *query = external_table_text(x, url->query);
    if (host == NULL || path == NULL || query == NULL) {
        return -ENOMEM;
    }
    x->url_rule[x->url_count] = (uint16_t)rule;
    x->urls[x->url_count] = (struct external_url){
        .host = host,
        .below_host = url->below_host,
        .https = url->https,
        .port = url->at.port,
        .below_path = url->below_path,
        .path = slice_of(path, url->path.len),
        .has_query = url->has_query,
        .query = slice_of(query, url->query.len),
        .method = method,
        .row = (uint16_t)x->url_count,
    };
    x->url_count++;
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct external_name *)a)->host, ((const struct external_name *)b)->host);
}

static int compare_urls(const void *a, const void *b)
{
    return strcmp(((const struct external_url *)a)->host, ((const struct external_url *)b)->host);
}

int external_table_build(struct external_table *x)
{
    if (x->name_count > 0) {
        qsort(x->names, x->name_count, sizeof *x->names, compare_names);
    }
    qsort(x->urls, x->url_count, sizeof *x->urls, compare_urls);
    if (x->pattern_count > 0) {
        x->scratch = pattern_scratch_new();
        return x->scratch != NULL ? 0 : -ENOMEM;
    }
    return 0;
}
