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

static int add(struct buf *out, const char *key, const char *value)
{
    int rc = buf_append_str(out, key);
    rc = rc != 0 ? rc : query_encode(slice_str(value), out);
    return rc != 0 ? rc : buf_append_char(out, '&');
}

static int add_fields(const struct collection *c, struct buf *out)
{
    struct buf text = BUF_INIT(COLLECTION_TARGET_MAX);
    const char *fields = c->field_selector == NULL ? "" : c->field_selector;
    int rc = c->name == NULL ? 0 : buf_printf(&text, "metadata.name=%s", c->name);
    if (rc == 0 && fields[0] != '\0') {
        rc = buf_printf(&text, "%s%s", text.len > 0 ? "," : "", fields);
    }
    const char *joined = rc == 0 ? buf_cstr(&text) : NULL;
    rc = joined == NULL && rc == 0 ? -ENOMEM : rc;
    if (rc == 0 && joined[0] != '\0') {
        rc = add(out, "fieldSelector=", joined);
    }
    buf_reset(&text);
    return rc;
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
    int rc = buf_printf(out, "%s?", c->path);
    if (rc == 0 && c->label_selector != NULL && c->label_selector[0] != '\0') {
        rc = add(out, "labelSelector=", c->label_selector);
    }
    rc = rc != 0 ? rc : add_fields(c, out);
    return rc != 0 ? err_set(e, rc, "selectors of %s: %s", c->path, err_text(rc)) : 0;
}

int collection_list(struct slice base, unsigned limit, const char *token, struct buf *out)
{
    int rc = buf_append(out, base.ptr, base.len);
    rc = rc != 0 ? rc : buf_printf(out, "limit=%u", limit);
    if (rc == 0 && token != NULL) {
        rc = buf_append_str(out, "&continue=");
        rc = rc != 0 ? rc : query_encode(slice_str(token), out);
    }
    return rc;
}

int collection_watch(struct slice base, const char *version, unsigned seconds, struct buf *out)
{
    int rc = buf_append(out, base.ptr, base.len);
    rc = rc != 0
             ? rc
             : buf_printf(out, "watch=true&allowWatchBookmarks=true&timeoutSeconds=%u", seconds);
    rc = rc != 0 ? rc : buf_append_str(out, "&resourceVersion=");
    return rc != 0 ? rc : query_encode(slice_str(version), out);
}
