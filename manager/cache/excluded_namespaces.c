/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/excluded_namespaces.h"

#include <errno.h>
#include <stdlib.h>

#include "base/xalloc.h"
#include "cache/namespaces.h"
#include "kube/selector.h"

struct excluded_namespaces {
    struct net_loop *loop;
    struct excluded_namespaces_options options;
    struct selector *selector; /* NULL: not known */
    struct namespaces *unmet[LEFT_OUT_REQUIREMENTS_MAX];
    size_t count;
};

/* ---- opposites ---- */

/* " in (a,b)", of a requirement that takes or leaves these values. */
static void write_values(const struct selector_requirement *r, const char *op, struct buf *out)
{
    buf_printf(out, "%s %s (", r->key, op);
    for (size_t i = 0; i < r->value_count; i++) {
        buf_printf(out, "%s%s", i > 0 ? "," : "", r->values[i]);
    }
    buf_append_char(out, ')');
}

/* What selects all that does not meet it. -ENOTSUP: there is none. */
static int write_opposite(const struct selector_requirement *r, struct buf *out)
{
    switch (r->op) {
    case SELECTOR_EXISTS:
        buf_printf(out, "!%s", r->key);
        break;
    case SELECTOR_NOT_EXISTS:
        buf_append_str(out, r->key);
        break;
    case SELECTOR_EQUALS:
    case SELECTOR_DOUBLE_EQUALS:
    case SELECTOR_IN:
        write_values(r, "notin", out);
        break;
    case SELECTOR_NOT_EQUALS:
    case SELECTOR_NOT_IN:
        write_values(r, "in", out);
        break;
    case SELECTOR_GREATER:
    case SELECTOR_LESS:
        return -ENOTSUP; /* not in label selectors of objects */
    }
    return xrc(buf_error(out));
}

/* ---- following ---- */

static void on_namespaces(void *data)
{
    const struct excluded_namespaces *f = data;
    if (f->options.on_change != NULL) {
        f->options.on_change(f->options.data);
    }
}

static int follow(struct excluded_namespaces *f, const struct selector_requirement *r)
{
    struct buf text = BUF_INIT(LEFT_OUT_TEXT_MAX);
    int rc = write_opposite(r, &text);
    if (rc != 0) {
        buf_reset(&text);
        return rc;
    }
    const struct namespaces_options o = {
        .client = f->options.client,
        .system = true,
        .label_selector = xptr(buf_cstr(&text)),
        .effect = "it is not known which of them the webhook for pods leaves out",
        .ops = f->options.ops,
        .on_change = on_namespaces,
        .data = f};
    f->unmet[f->count++] = namespaces_new(f->loop, &o);
    buf_reset(&text);
    return 0;
}

static int follow_all(struct excluded_namespaces *f)
{
    size_t count = 0;
    const struct selector_requirement *list = selector_requirements(f->selector, &count);
    int rc = count > LEFT_OUT_REQUIREMENTS_MAX ? -E2BIG : 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = follow(f, &list[i]);
    }
    return rc;
}

static struct selector *read_selector(const cJSON *object, struct err *e)
{
    return object == NULL ? selector_parse(slice_str(""), e)
                          : selector_from_label_selector(object, "namespaceSelector", e);
}

void excluded_namespaces_forget(struct excluded_namespaces *f)
{
    for (size_t i = 0; i < f->count; i++) {
        namespaces_free(f->unmet[i]);
    }
    f->count = 0;
    selector_free(f->selector);
    f->selector = NULL;
}

int excluded_namespaces_set(struct excluded_namespaces *f, const cJSON *selector)
{
    struct err e = ERR_INIT;
    struct selector *now = read_selector(selector, &e);
    if (now != NULL && f->selector != NULL && selector_equal(now, f->selector)) {
        selector_free(now);
        return 0;
    }
    excluded_namespaces_forget(f);
    f->selector = now;
    int rc = now == NULL ? xrc(e.code) : follow_all(f);
    if (rc != 0) {
        excluded_namespaces_forget(f);
    }
    return rc != 0 ? rc : 1;
}

/* ---- answers and life ---- */

bool excluded_namespaces_has(const struct excluded_namespaces *f, const char *ns)
{
    for (size_t i = 0; i < f->count; i++) {
        if (namespaces_has(f->unmet[i], ns)) {
            return true;
        }
    }
    return false;
}

struct excluded_namespaces *excluded_namespaces_new(struct net_loop *l,
                                                    const struct excluded_namespaces_options *o)
{
    struct excluded_namespaces *f = xcalloc(1, sizeof *f);
    f->loop = l;
    f->options = *o;
    return f;
}

void excluded_namespaces_free(struct excluded_namespaces *f)
{
    if (f != NULL) {
        excluded_namespaces_forget(f);
        free(f);
    }
}
