/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/collection.h"

#include <errno.h>
#include <string.h>

#include "kube/query.h"

bool collection_is_path(const char *path)
{
    if (path == NULL || path[0] != '/') {
        return false;
    }
    for (const char *p = path; *p != '\0'; p++) {
        if (*p <= ' ' || *p > '~' || strchr("?#%\\\"<>^`{|}", *p) != NULL) {
            return false;
        }
    }
    return true;
}

/* Commas, equal signs and backslashes have a meaning in a field selector; no name has them. */
static bool is_plain(const char *name)
{
    return name[0] != '\0' && strpbrk(name, ",=!\\/") == NULL;
}

static void add_fields(const struct collection *c, struct buf *out)
{
    const char *fields = c->field_selector == NULL ? "" : c->field_selector;
    if (c->name == NULL && fields[0] == '\0') {
        return;
    }
    buf_append_str(out, "fieldSelector=");
    if (c->name != NULL) {
        query_encode(SLICE("metadata.name="), out);
        query_encode(slice_str(c->name), out);
        query_encode(fields[0] != '\0' ? SLICE(",") : SLICE(""), out);
    }
    query_encode(slice_str(fields), out);
    buf_append_char(out, '&');
}

int collection_base(const struct collection *c, struct buf *out, struct err *e)
{
    if (!collection_is_path(c->path)) {
        return err_set(e, -EINVAL, "not the path of a resource: \"%s\"",
                       c->path == NULL ? "" : c->path);
    }
    if (c->name != NULL && !is_plain(c->name)) {
        return err_set(e, -EINVAL, "not the name of an object: \"%s\"", c->name);
    }
    buf_printf(out, "%s?", c->path);
    if (c->label_selector != NULL && c->label_selector[0] != '\0') {
        buf_append_str(out, "labelSelector=");
        query_encode(slice_str(c->label_selector), out);
        buf_append_char(out, '&');
    }
    add_fields(c, out);
    int rc = buf_error(out);
    return rc == 0 ? 0 : err_set(e, rc, "selectors of %s: %s", c->path, err_text(rc));
}

int collection_list(struct slice base, unsigned limit, const char *token, struct buf *out)
{
    buf_append(out, base.ptr, base.len);
    buf_printf(out, "limit=%u", limit);
    if (token != NULL) {
        buf_append_str(out, "&continue=");
        query_encode(slice_str(token), out);
    }
    return buf_error(out);
}

int collection_watch(struct slice base, const char *version, unsigned seconds, struct buf *out)
{
    buf_append(out, base.ptr, base.len);
    buf_printf(out,
               "watch=true&allowWatchBookmarks=true&timeoutSeconds=%u&resourceVersion=", seconds);
    return query_encode(slice_str(version), out);
}
