/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream gives the same events however it is cut into pieces; each has what its users rely on.
 * The first byte tells the size of the pieces.
 */
#include "kube/client/watch_event.h"

#include <errno.h>
#include <string.h>

#include "check.h"
#include "kube/client/api_error.h"
#include "json/json.h"

enum { LINE_MAX_BYTES = 200 };

static void check_error(const cJSON *status)
{
    struct api_error error;
    api_error_from_status(status, &error);
    CHECK(error.code <= 999 && error.retry_after <= API_ERROR_RETRY_MAX);
    CHECK(error.msg[0] != '\0' && strlen(error.msg) < sizeof error.msg);
}

static void check_event(struct slice line)
{
    struct watch_event event;
    struct err e = ERR_INIT;
    int rc = watch_event_parse(line, &event, &e);
    if (rc != 0) {
        CHECK(rc == -EINVAL && e.msg[0] != '\0');
        return;
    }
    CHECK(cJSON_IsObject(event.object));
    if (event.type == WATCH_ERROR) {
        CHECK(event.version == NULL);
        check_error(event.object);
    } else {
        CHECK(event.version[0] != '\0' && strlen(event.version) <= RESOURCE_VERSION_MAX);
        CHECK(event.type == WATCH_BOOKMARK || object_name(event.object)[0] != '\0');
    }
    watch_event_deinit(&event);
}

/* Appends the lines, each with a line feed, to `out`. How it ended. */
static int split(const uint8_t *data, size_t size, size_t piece, struct buf *out)
{
    struct watch_lines w;
    int rc = 0;
    watch_lines_init(&w, LINE_MAX_BYTES);
    for (size_t at = 0; at < size && rc == 0; at += piece) {
        size_t len = size - at < piece ? size - at : piece;
        char *copy = malloc(len);
        CHECK(copy != NULL);
        memcpy(copy, data + at, len);
        struct slice rest = slice_of(copy, len);
        struct slice line;
        while ((rc = watch_lines_next(&w, &rest, &line)) == 1) {
            CHECK(line.len > 0 && line.len <= LINE_MAX_BYTES);
            CHECK(buf_append(out, line.ptr, line.len) == 0 && buf_append_char(out, '\n') == 0);
            check_event(line);
        }
        free(copy);
    }
    CHECK(rc == 0 || rc == -EMSGSIZE);
    CHECK(watch_lines_pending(&w) <= LINE_MAX_BYTES);
    watch_lines_deinit(&w);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf whole = BUF_INIT(SIZE_MAX);
    struct buf pieces = BUF_INIT(SIZE_MAX);
    if (size < 2) {
        return 0;
    }
    size_t piece = (size_t)data[0] + 1;
    int rc = split(data + 1, size - 1, size - 1, &whole);
    CHECK(split(data + 1, size - 1, piece, &pieces) == rc);
    CHECK(whole.len == pieces.len);
    CHECK(whole.len == 0 || memcmp(buf_data(&whole), buf_data(&pieces), whole.len) == 0);
    buf_reset(&whole);
    buf_reset(&pieces);

    struct api_error error;
    char *copy = malloc(size);
    CHECK(copy != NULL);
    memcpy(copy, data, size);
    api_error_from_answer(400u + data[0], NULL, slice_of(copy + 1, size - 1), &error);
    CHECK(error.code == 400u + data[0] && strlen(error.msg) < sizeof error.msg);
    free(copy);
    return 0;
}
