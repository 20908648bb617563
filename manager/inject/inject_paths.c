/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/inject_paths.h"

#include <stddef.h>
#include <string.h>

#include "base/array.h"
#include "base/slice.h"

/* The next part of a path, which stands behind it then; empty at the end. */
static struct slice next_part(const char **path)
{
    struct slice part;
    do {
        *path += strspn(*path, "/");
        part = slice_of(*path, strcspn(*path, "/"));
        *path += part.len;
    } while (slice_eq(part, SLICE(".")));
    return part;
}

static bool has_parent(const char *path)
{
    struct slice part;
    while ((part = next_part(&path)).len > 0) {
        if (slice_eq(part, SLICE(".."))) {
            return true;
        }
    }
    return false;
}

/* In images /var/run is a link to /run. */
static const char *follow_link(const char *path)
{
    const char *run = path;
    if (!slice_eq(next_part(&run), SLICE("var"))) {
        return path;
    }
    const char *behind = run;
    return slice_eq(next_part(&behind), SLICE("run")) ? run : path;
}

static bool overlaps(const char *a, const char *b)
{
    for (;;) {
        struct slice x = next_part(&a);
        struct slice y = next_part(&b);
        if (x.len == 0 || y.len == 0) {
            return true;
        }
        if (!slice_eq(x, y)) {
            return false;
        }
    }
}

bool inject_paths_in(const char *path, const char *folder)
{
    for (;;) {
        struct slice wanted = next_part(&folder);
        if (wanted.len == 0) {
            return true;
        }
        if (!slice_eq(next_part(&path), wanted)) {
            return false;
        }
    }
}

bool inject_paths_in_linked(const char *path, const char *folder)
{
    return inject_paths_in(follow_link(path), follow_link(folder));
}

bool inject_paths_equal(const char *a, const char *b)
{
    return inject_paths_in_linked(a, b) && inject_paths_in_linked(b, a);
}

const char *inject_paths_refuse(const char *path)
{
    static const char *const ours[] = {INJECT_RUN_DIR, INJECT_STATE_DIR, INJECT_ETC_DIR};
    if (has_parent(path)) {
        return "must not contain \"..\"";
    }
    for (size_t i = 0; i < ARRAY_LEN(ours); i++) {
        if (overlaps(follow_link(path), ours[i])) {
            return "is a folder of the sidecars, in one, or holds one";
        }
    }
    return NULL;
}
