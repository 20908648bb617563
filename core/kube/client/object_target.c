/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/object_target.h"

#include <errno.h>
#include <string.h>

#include "kube/client/collection.h"
#include "kube/query.h"

static bool is_segment(const char *text)
{
    return text[0] != '\0' && strcmp(text, ".") != 0 && strcmp(text, "..") != 0 &&
           strpbrk(text, "/%") == NULL;
}

static int check(const struct object_target *t, struct err *e)
{
    if (!collection_is_path(t->path)) {
        return err_set(e, -EINVAL, "not the path of a resource: \"%s\"",
                       t->path == NULL ? "" : t->path);
    }
    if (t->name != NULL && !is_segment(t->name)) {
        return err_set(e, -EINVAL, "not the name of an object: \"%s\"", t->name);
    }
    if (t->subresource != NULL && (t->name == NULL || !is_segment(t->subresource))) {
        return err_set(e, -EINVAL, "not a subresource of an object: \"%s\"", t->subresource);
    }
    return 0;
}

static int add_segment(const char *segment, struct buf *out)
{
    if (segment == NULL) {
        return 0;
    }
    int rc = buf_append_char(out, '/');
    return rc != 0 ? rc : query_encode(slice_str(segment), out);
}

/* `value` NULL: not at all. */
static int add_parameter(const char *key, const char *value, bool *first, struct buf *out)
{
    if (value == NULL) {
        return 0;
    }
    int rc = buf_printf(out, "%c%s=", *first ? '?' : '&', key);
    *first = false;
    return rc != 0 ? rc : query_encode(slice_str(value), out);
}

int object_target_write(const struct object_target *t, struct buf *out, struct err *e)
{
    bool first = true;
    if (check(t, e) != 0) {
        return -EINVAL;
    }
    int rc = buf_append_str(out, t->path);
    rc = rc != 0 ? rc : add_segment(t->name, out);
    rc = rc != 0 ? rc : add_segment(t->subresource, out);
    rc = rc != 0 ? rc : add_parameter("fieldManager", t->field_manager, &first, out);
    rc = rc != 0 ? rc : add_parameter("force", t->force ? "true" : NULL, &first, out);
    rc = rc != 0 ? rc : add_parameter("dryRun", t->dry_run ? "All" : NULL, &first, out);
    return rc != 0 ? err_set(e, rc, "the target of %s: %s", t->path, err_text(rc)) : 0;
}
