/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file is a header and a block of data as version 1 had it, with 32 bits for each time; then,
 * from version 2 on, the same once more with 64 bits, and the footer: the rule between two
 * newlines. Only the second half is looked at. All counts come from the file and are not trusted.
 */
#include "policy/zone_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/ascii.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/time_zone.h"
#include "base/xalloc.h"

enum {
    FILE_MAX = 256 * 1024, /* the largest have less than 4 KiB */
    HEADER_LEN = 44,
    VERSION_AT = 4,
    COUNTS_AT = 20,
    TYPE_LEN = 6,
    TYPES_MAX = 256,
    OFFSET_MAX = 26 * 3600, /* seconds; RFC 8536 has the range -25 to +26 hours */
};

#define TIME_MAX INT64_C(253402300799) /* the end of the year 9999 */

/* In the order in which they stand in the header. */
struct counts {
    uint32_t isutc;
    uint32_t isstd;
    uint32_t leap;
    uint32_t time;
    uint32_t type;
    uint32_t character;
};

/* Bytes that were not taken yet. */
struct reader {
    const uint8_t *at;
    size_t left;
};

/* The parts of the second block that matter. */
struct zone_data {
    const uint8_t *times;   /* 8 bytes each, rising */
    const uint8_t *indexes; /* of the type that begins then */
    const uint8_t *types;
    uint32_t time_count;
    uint32_t type_count;
};

static uint32_t get32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int64_t get64(const uint8_t *p)
{
    return (int64_t)((uint64_t)get32(p) << 32 | get32(p + 4));
}

/* NULL: there are not so many. */
static const uint8_t *take(struct reader *r, uint64_t len)
{
    if (len > r->left) {
        return NULL;
    }
    const uint8_t *p = r->at;
    r->at += len;
    r->left -= (size_t)len;
    return p;
}

static int damaged(struct err *e, const char *what)
{
    return err_set(e, -EINVAL, "its file in the zone database is damaged: %s", what);
}

static int read_header(struct reader *r, struct counts *c, struct err *e)
{
    const uint8_t *p = take(r, HEADER_LEN);
    if (p == NULL || memcmp(p, "TZif", 4) != 0) {
        return err_set(e, -EINVAL, "is no time zone");
    }
    if (p[VERSION_AT] < '2') {
        return damaged(e, "it has version 1, without a rule for times to come");
    }
    c->isutc = get32(p + COUNTS_AT);
    c->isstd = get32(p + COUNTS_AT + 4);
    c->leap = get32(p + COUNTS_AT + 8);
    c->time = get32(p + COUNTS_AT + 12);
    c->type = get32(p + COUNTS_AT + 16);
    c->character = get32(p + COUNTS_AT + 20);
    return 0;
}

/* Goes over a block whose times have so many bytes. */
static int read_block(struct reader *r, const struct counts *c, unsigned size,
                      struct zone_data *out, struct err *e)
{
    out->times = take(r, (uint64_t)c->time * size);
    out->indexes = out->times == NULL ? NULL : take(r, c->time);
    out->types = out->indexes == NULL ? NULL : take(r, (uint64_t)c->type * TYPE_LEN);
    out->time_count = c->time;
    out->type_count = c->type;
    uint64_t rest = (uint64_t)c->character + (uint64_t)c->leap * (size + 4) + c->isstd + c->isutc;
    return out->types != NULL && take(r, rest) != NULL ? 0 : damaged(e, "it ends too early");
}

/* Of a type; false when there is none of that number, or it is out of range. */
static bool get_offset(const struct zone_data *d, uint8_t index, int32_t *out)
{
    if (index >= d->type_count) {
        return false;
    }
    int64_t offset = (int32_t)get32(d->types + (size_t)index * TYPE_LEN);
    *out = (int32_t)offset;
    return offset >= -OFFSET_MAX && offset <= OFFSET_MAX;
}

static int check_data(const struct zone_data *d, struct err *e)
{
    int32_t offset;
    if (d->type_count == 0 || d->type_count > TYPES_MAX) {
        return damaged(e, "the number of its types is out of range");
    }
    for (uint32_t i = 0; i < d->type_count; i++) {
        if (!get_offset(d, (uint8_t)i, &offset)) {
            return damaged(e, "an offset is out of range");
        }
    }
    for (uint32_t i = 0; i < d->time_count; i++) {
        if (d->indexes[i] >= d->type_count) {
            return damaged(e, "a type is missing");
        }
        if (i > 0 && get64(d->times + (size_t)8 * i) <= get64(d->times + (size_t)8 * (i - 1))) {
            return damaged(e, "its times are not in order");
        }
        if (get64(d->times + (size_t)8 * i) > TIME_MAX) {
            return damaged(e, "a time is out of range");
        }
    }
    return 0;
}

static int read_footer(struct reader *r, struct zone_rule *out, struct time_zone *rule,
                       struct err *e)
{
    struct err why = ERR_INIT;
    const uint8_t *begin = take(r, 1);
    const uint8_t *end = begin == NULL ? NULL : memchr(r->at, '\n', r->left);
    if (begin == NULL || *begin != '\n' || end == NULL) {
        return damaged(e, "its last line is missing");
    }
    size_t len = (size_t)(end - r->at);
    if (len == 0) {
        return err_set(e, -EINVAL, "has no rule for times to come");
    }
    if (len > ZONE_FILE_RULE_MAX || memchr(r->at, '\0', len) != NULL) {
        return damaged(e, "its last line is no rule");
    }
    memcpy(out->text, r->at, len);
    out->text[len] = '\0';
    return time_zone_parse(out->text, rule, &why) == 0 ? 0 : damaged(e, why.msg);
}

/* From when on the clocks differ from the rule between the two times, of which the later one does
 * not count; 0: they do not, as far as both ends tell. */
static int64_t compare(const struct time_zone *rule, int32_t offset, int64_t from, int64_t to)
{
    if (time_zone_offset(rule, from) != offset) {
        return from;
    }
    return time_zone_offset(rule, to - 1) != offset ? to - 1 : 0;
}

/* The changes that the file lists go on to some time, and it is the rule's from then on. */
static int64_t find_difference(const struct zone_data *d, const struct time_zone *rule, int64_t now)
{
    int64_t differs = 0;
    for (uint32_t i = 0; i + 1 < d->time_count && differs == 0; i++) {
        int32_t offset = 0;
        int64_t from = get64(d->times + (size_t)8 * i);
        int64_t to = get64(d->times + (size_t)8 * (i + 1));
        if (to > now && get_offset(d, d->indexes[i], &offset)) {
            differs = compare(rule, offset, from > now ? from : now, to);
        }
    }
    return differs;
}

int zone_file_parse(const void *data, size_t len, int64_t now, struct zone_rule *out, struct err *e)
{
    struct reader r = {.at = data, .left = len};
    struct counts counts;
    struct zone_data zone;
    struct time_zone rule;
    if (read_header(&r, &counts, e) != 0 || read_block(&r, &counts, 4, &zone, e) != 0 ||
        read_header(&r, &counts, e) != 0 || read_block(&r, &counts, 8, &zone, e) != 0 ||
        check_data(&zone, e) != 0 || read_footer(&r, out, &rule, e) != 0) {
        return e->code;
    }
    out->differs = find_difference(&zone, &rule, now);
    return 0;
}

/* ---- names ---- */

/* No part of it is empty, and none leads out of the folder. */
static bool is_name(const char *name)
{
    size_t len = strlen(name);
    char before = '/';
    if (len == 0 || len > ZONE_FILE_NAME_MAX) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        char c = name[i];
        bool part = ascii_is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                    c == '_' || c == '+' || c == '-';
        if (!part && (c != '/' || before == '/')) {
            return false;
        }
        before = c;
    }
    return before != '/';
}

static int tell_missing(const char *folder, int why, struct err *e)
{
    struct stat st;
    if (stat(folder, &st) != 0) {
        return err_set(e, -ENOENT,
                       "is not known here: there is no zone database in %.200s, which Debian's "
                       "package tzdata has",
                       folder);
    }
    if (why == -ENOENT || why == -ENOTDIR || why == -EISDIR) {
        return err_set(e, -ENOENT,
                       "is not in the zone database (%.200s): write a name such as "
                       "\"Europe/Berlin\"; what is new needs a newer tzdata",
                       folder);
    }
    return err_set(e, why, "its file in the zone database (%.200s) cannot be read: %s", folder,
                   err_text(why));
}

int zone_file_rule(const char *folder, const char *name, int64_t now, struct zone_rule *out,
                   struct err *e)
{
    if (strcmp(name, "UTC") == 0) {
        *out = (struct zone_rule){.text = "UTC0"};
        return 0;
    }
    if (!is_name(name)) {
        return err_set(e, -EINVAL,
                       "must be a name of the IANA zone database, such as \"Europe/Berlin\"");
    }
    const char *base = folder == NULL ? ZONE_FILE_FOLDER : folder;
    struct buf data = BUF_INIT(FILE_MAX);
    struct err why = ERR_INIT;
    char *path = xasprintf("%s/%s", base, name);
    int rc = xrc(file_read(path, &data, &why));
    rc = rc == 0 ? zone_file_parse(buf_data(&data), data.len, now, out, e)
                 : tell_missing(base, rc, e);
    free(path);
    buf_reset(&data);
    return rc;
}
