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

static int check_target(const struct object_target *t, struct err *e)
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

static void add_segment(const char *segment, struct buf *out)
{
    if (segment != NULL) {
        buf_append_char(out, '/');
        query_encode(slice_str(segment), out);
    }
}

/* `value` NULL: not at all. */
static void add_parameter(const char *key, const char *value, bool *first, struct buf *out)
{
    if (value != NULL) {
        buf_printf(out, "%c%s=", *first ? '?' : '&', key);
        query_encode(slice_str(value), out);
        *first = false;
    }
}

int object_target_write(const struct object_target *t, struct buf *out, struct err *e)
{
    bool first = true;
    if (check_target(t, e) != 0) {
        return -EINVAL;
    }
    buf_append_str(out, t->path);
    add_segment(t->name, out);
    add_segment(t->subresource, out);
    add_parameter("fieldManager", t->field_manager, &first, out);
    add_parameter("force", t->force ? "true" : NULL, &first, out);
    add_parameter("dryRun", t->dry_run ? "All" : NULL, &first, out);
    int rc = buf_error(out);
    return rc == 0 ? 0 : err_set(e, rc, "the target of %s: %s", t->path, err_text(rc));
}
