/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/input.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/xalloc.h"
#include "json/field.h"

enum { STEP = 64 * 1024 };

static int read_standard(struct buf *out, struct err *e)
{
    for (;;) {
        if (STEP > out->max - out->len) {
            return err_set(e, -ENOBUFS, "standard input: more than %zu bytes", out->max);
        }
        size_t n = fread(xptr(buf_reserve(out, STEP)), 1, STEP, stdin);
        buf_commit(out, n);
        if (n == 0) {
            return ferror(stdin)
                       ? err_set(e, -EIO, "standard input: cannot read: %s", strerror(errno))
                       : 0;
        }
    }
}

int input_read(const char *path, struct buf *out, struct err *e)
{
    return strcmp(path, "-") == 0 ? read_standard(out, e) : xrc(file_read(path, out, e));
}

const cJSON *input_list_items(const cJSON *document, const char *kind)
{
    const char *text = field_text(document, "kind");
    const cJSON *items = field_get(document, "items");
    size_t len = strlen(kind);
    bool list = strcmp(text, "List") == 0 ||
                (strncmp(text, kind, len) == 0 && strcmp(text + len, "List") == 0);
    return list && cJSON_IsArray(items) ? items : NULL;
}

const char **input_paths(const struct flag_list *list, int argc, char **argv, int rest,
                         size_t *count)
{
    const char **paths = xcalloc(list->count + (size_t)argc, sizeof *paths);
    *count = 0;
    for (size_t i = 0; i < list->count; i++) {
        paths[(*count)++] = list->items[i];
    }
    for (int i = rest; i < argc; i++) {
        paths[(*count)++] = argv[i];
    }
    return paths;
}
