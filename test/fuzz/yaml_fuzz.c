/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is read as YAML stays within the limits, and, written as YAML, reads as the same documents;
 * what is refused has a message.
 */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "yaml/yaml.h"
#include "json/json.h"

static size_t count_nodes(const cJSON *item, int depth)
{
    size_t n = 1;
    const cJSON *child;
    CHECK(depth <= YAML_DEPTH_MAX + 1); /* the array of the documents is one level */
    cJSON_ArrayForEach(child, item)
    {
        n += count_nodes(child, depth + 1);
    }
    return n;
}

static void check_lines(const cJSON *item, const struct yaml_lines *lines, unsigned count)
{
    const cJSON *child;
    cJSON_ArrayForEach(child, item)
    {
        unsigned line = yaml_line_of(lines, child);
        CHECK(line >= 1 && line <= count);
        check_lines(child, lines, count);
    }
}

static void check_round_trip(const cJSON *document)
{
    struct err e = ERR_INIT;
    struct buf text = BUF_INIT(SIZE_MAX);
    struct buf first = BUF_INIT(SIZE_MAX);
    struct buf second = BUF_INIT(SIZE_MAX);
    CHECK(yaml_emit(document, &text) == 0);
    cJSON *again = yaml_parse((const char *)buf_data(&text), text.len, NULL, &e);
    CHECK(again != NULL);
    CHECK(json_canonical(document, &first) == 0);
    CHECK(json_canonical(again, &second) == 0);
    CHECK(first.len == second.len);
    CHECK(memcmp(buf_data(&first), buf_data(&second), first.len) == 0);
    cJSON_Delete(again);
    buf_reset(&text);
    buf_reset(&first);
    buf_reset(&second);
}

/* Through memory of its own, so that reads outside the text are seen. */
static cJSON *parse(const uint8_t *data, size_t size, struct yaml_lines *lines, struct err *e)
{
    char *copy = malloc(size > 0 ? size : 1);
    CHECK(copy != NULL);
    if (size > 0) {
        memcpy(copy, data, size);
    }
    cJSON *all = yaml_parse_all(copy, size, lines, e);
    free(copy);
    return all;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = ERR_INIT;
    struct yaml_lines lines = YAML_LINES_INIT;
    cJSON *all = parse(data, size, &lines, &e);
    if (all == NULL) {
        CHECK(e.code != 0 && e.msg[0] != '\0' && lines.items == NULL);
        return 0;
    }
    CHECK(count_nodes(all, 0) <= YAML_NODES_MAX + 1);
    check_lines(all, &lines, (unsigned)size + 1);
    const cJSON *document;
    cJSON_ArrayForEach(document, all)
    {
        check_round_trip(document);
    }
    yaml_lines_deinit(&lines);
    cJSON_Delete(all);
    return 0;
}
