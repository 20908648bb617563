/* SPDX-License-Identifier: Apache-2.0 */
#include "mounts.h"

#include <stdio.h>
#include <string.h>

/* Fields of a line, counted from 0: `36 35 98:0 /root /point ...`. */
enum { FIELD_ROOT = 3, FIELD_POINT = 4 };

static struct slice next_line(struct slice *rest)
{
    const char *end = memchr(rest->ptr, '\n', rest->len);
    size_t len = end != NULL ? (size_t)(end - rest->ptr) : rest->len;
    struct slice line = slice_of(rest->ptr, len);
    size_t used = end != NULL ? len + 1 : len;
    *rest = slice_of(rest->ptr + used, rest->len - used);
    return line;
}

/* An empty slice when the line has fewer fields. */
static struct slice mount_field(struct slice line, unsigned number)
{
    size_t at = 0;
    for (;; number--) {
        size_t end = at;
        while (end < line.len && line.ptr[end] != ' ') {
            end++;
        }
        if (number == 0) {
            return slice_of(line.ptr + at, end - at);
        }
        if (end == line.len) {
            return slice_of(line.ptr + end, 0);
        }
        at = end + 1;
    }
}

/* White space and backslashes in paths are written as \ooo. */
static bool same_path(struct slice escaped, const char *path)
{
    size_t at = 0;
    for (; *path != '\0'; path++) {
        unsigned c;
        if (at == escaped.len) {
            return false;
        }
        if (escaped.ptr[at] != '\\') {
            c = (unsigned char)escaped.ptr[at++];
        } else if (at + 4 <= escaped.len) {
            const char *o = escaped.ptr + at + 1;
            c = (unsigned)((o[0] - '0') * 64 + (o[1] - '0') * 8 + (o[2] - '0'));
            at += 4;
        } else {
            return false;
        }
        if (c != (unsigned char)*path) {
            return false;
        }
    }
    return at == escaped.len;
}

/* The kubelet resolved the path once, through `..data` to the folder of that moment, which is named
 * by its time: ..2006_01_02_15_04_05.123456789. */
static bool of_a_moment(struct slice root)
{
    return memmem(root.ptr, root.len, "/..2", 4) != NULL;
}

bool mounts_never_update(struct slice mountinfo, const char *folder, const char *file,
                         char why[ERR_MSG_MAX])
{
    while (mountinfo.len > 0) {
        struct slice line = next_line(&mountinfo);
        struct slice point = mount_field(line, FIELD_POINT);
        if (same_path(point, file)) {
            (void)snprintf(why, ERR_MSG_MAX,
                           "%s is a mount of a single file (subPath): changes of the ConfigMap "
                           "will never show up here; mount the whole ConfigMap as a folder",
                           file);
            return true;
        }
        if (same_path(point, folder) && of_a_moment(mount_field(line, FIELD_ROOT))) {
            (void)snprintf(why, ERR_MSG_MAX,
                           "%s is a mount of a part of a volume (subPath): changes of the "
                           "ConfigMap will never show up here; mount the whole ConfigMap",
                           folder);
            return true;
        }
    }
    return false;
}
