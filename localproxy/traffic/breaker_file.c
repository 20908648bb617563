/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic/breaker_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/file.h"
#include "base/hash.h"
#include "json/field.h"
#include "json/json.h"

enum { MODE = 0600 };

#define TIME_MAX 253402300799000.0 /* the last second of the year 9999, in milliseconds */

/* ---- the fingerprint ---- */

/* All that traffic_limiting_same looks at, but for the names, which are the key. */
static uint64_t fingerprint(const struct traffic_limiting *l)
{
    const struct traffic_health *h = &l->health;
    const uint64_t numbers[] = {
        l->trigger,       l->has_bucket, l->bucket.burst, l->bucket.limit, l->bucket.interval_ms,
        l->max_in_flight, l->recover,    l->window_ms,    h->window_ms,    h->minimum_requests,
        h->error_percent, h->slow_ms,    h->slow_percent, h->half_open,
    };
    char text[24];
    uint64_t hash = HASH_SEED;
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        (void)snprintf(text, sizeof text, "%" PRIu64, numbers[i]);
        hash = hash_slice(hash, slice_str(text));
    }
    return hash;
}

/* ---- reading ---- */

void breaker_saved_free(struct breaker_saved *s)
{
    for (size_t i = 0; s != NULL && i < s->count; i++) {
        free(s->rows[i].key);
    }
    free(s);
}

static bool read_wall(const cJSON *row, const char *key, int64_t *out)
{
    const cJSON *item = field_get(row, key);
    double n = cJSON_IsNumber(item) ? item->valuedouble : 0;
    *out = n >= 0 && n <= TIME_MAX ? (int64_t)n : 0;
    return item == NULL || (cJSON_IsNumber(item) && n >= 0 && n <= TIME_MAX);
}

static bool read_fingerprint(const cJSON *row, uint64_t *out)
{
    const char *text = field_text(row, "same");
    if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16) {
        return false;
    }
    *out = strtoull(text, NULL, 16);
    return true;
}

static int read_row(const cJSON *item, struct breaker_saved_row *out, struct err *e)
{
    const char *key = field_text(item, "key");
    const char *reset = field_text(item, "reset");
    if (key[0] == '\0' || strlen(key) > BREAKER_KEY_MAX || strlen(reset) > TRAFFIC_TOKEN_MAX ||
        !read_fingerprint(item, &out->same) || !read_wall(item, "since", &out->since_wall_ms) ||
        !read_wall(item, "until", &out->until_wall_ms)) {
        return err_set(e, -EINVAL, "a breaker in it makes no sense");
    }
    (void)snprintf(out->reset, sizeof out->reset, "%s", reset);
    out->key = strdup(key);
    return out->key == NULL ? err_memory(e) : 0;
}

static int read_rows(const cJSON *root, struct breaker_saved **out, struct err *e)
{
    const cJSON *list = field_get(root, "breakers");
    size_t count = cJSON_IsArray(list) ? (size_t)cJSON_GetArraySize(list) : 0;
    if (!cJSON_IsArray(list) || count > TRAFFIC_ROWS_MAX) {
        return err_set(e, -EINVAL, "it has no list of breakers, or too long a one");
    }
    struct breaker_saved *s = calloc(1, sizeof *s + count * sizeof s->rows[0]);
    if (s == NULL) {
        return err_memory(e);
    }
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        int rc = read_row(item, &s->rows[s->count], e);
        if (rc != 0) {
            breaker_saved_free(s);
            return rc;
        }
        s->count++;
    }
    *out = s;
    return 0;
}

int breaker_file_parse(struct slice text, struct breaker_saved **out, struct err *e)
{
    *out = NULL;
    cJSON *root = json_parse(text.ptr, text.len, e);
    if (root == NULL) {
        return e->code;
    }
    int rc = read_rows(root, out, e);
    cJSON_Delete(root);
    return rc;
}

int breaker_file_read(const char *path, struct breaker_saved **out, struct err *e)
{
    struct buf text = BUF_INIT(BREAKER_FILE_MAX);
    *out = NULL;
    int rc = file_read(path, &text, e);
    if (rc == 0) {
        rc = breaker_file_parse(buf_slice(&text), out, e);
        if (rc != 0) {
            err_prefix(e, "%s", path);
        }
    }
    buf_reset(&text);
    return rc == -ENOENT ? 0 : rc;
}

static const struct breaker_saved_row *find_row(const struct breaker_saved *s,
                                                const struct breaker *b)
{
    for (size_t i = 0; i < s->count; i++) {
        if (strcmp(s->rows[i].key, b->key) == 0) {
            return s->rows[i].same == fingerprint(b->limiting) ? &s->rows[i] : NULL;
        }
    }
    return NULL;
}

void breaker_file_restore(const struct breaker_saved *s, struct breakers *all,
                          struct breaker_turn *turn)
{
    for (size_t i = 0; all->now != NULL && i < all->now->count; i++) {
        struct breaker *b = all->now->at[i];
        const struct breaker_saved_row *row = find_row(s, b);
        if (row != NULL) {
            breaker_restore(b, row->since_wall_ms, row->until_wall_ms, row->reset, turn);
            breaker_follow(b, b->document, b->limiting, turn);
        }
    }
}

/* ---- writing ---- */

/* What is open by its policy is so again by itself. */
static bool is_open(const struct breaker *b)
{
    return b->state != CONTROL_BREAKER_CLOSED && b->limiting->trigger != TRAFFIC_FORCE_OPENED;
}

/* Half open: its time is over. */
static int64_t until_of(const struct breaker *b)
{
    return b->state == CONTROL_BREAKER_HALF_OPENED ? b->since_wall_ms : b->until_wall_ms;
}

static void write_row(const struct breaker *b, struct buf *out)
{
    buf_append_str(out, "{\"key\":");
    json_quote(b->key, out);
    buf_printf(out, ",\"same\":\"%016" PRIx64 "\"", fingerprint(b->limiting));
    if (is_open(b)) {
        buf_printf(out, ",\"since\":%" PRId64 ",\"until\":%" PRId64, b->since_wall_ms, until_of(b));
    }
    buf_append_str(out, ",\"reset\":");
    json_quote(b->reset, out);
    buf_append_char(out, '}');
}

static void write_rows(const struct breakers *all, struct buf *out)
{
    bool first = true;
    buf_append_str(out, "{\"breakers\":[");
    for (size_t i = 0; all->now != NULL && i < all->now->count; i++) {
        const struct breaker *b = all->now->at[i];
        if (is_open(b) || b->reset[0] != '\0') {
            buf_append_str(out, first ? "\n" : ",\n");
            write_row(b, out);
            first = false;
        }
    }
    buf_append_str(out, "]}\n");
}

static void note_written(struct breakers *all)
{
    for (size_t i = 0; all->now != NULL && i < all->now->count; i++) {
        struct breaker *b = all->now->at[i];
        b->kept = is_open(b) ? b->changed : 0;
    }
}

int breaker_file_write(const char *path, struct breakers *all, struct err *e)
{
    struct buf text = BUF_INIT(BREAKER_FILE_MAX);
    write_rows(all, &text);
    int rc = buf_error(&text);
    rc = rc == 0 ? file_write_atomic(path, buf_data(&text), text.len, MODE, e)
                 : err_set(e, rc, "%s: %s", path, err_text(rc));
    if (rc == 0) {
        note_written(all);
    }
    buf_reset(&text);
    return rc;
}

/* Half open it was open before, and that its time is over the file says, too. */
static bool is_lacking(const struct breaker *b, uint64_t now_ms, uint64_t longer_ms)
{
    return b->state == CONTROL_BREAKER_OPENED && is_open(b) && b->kept != b->changed &&
           (b->until_ms == 0 || b->until_ms > now_ms + longer_ms);
}

bool breaker_file_lacks(const struct breakers *all, uint64_t now_ms, uint64_t longer_ms)
{
    for (size_t i = 0; all->now != NULL && i < all->now->count; i++) {
        if (is_lacking(all->now->at[i], now_ms, longer_ms)) {
            return true;
        }
    }
    return false;
}
