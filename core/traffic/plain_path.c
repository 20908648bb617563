/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic/plain_path.h"

#include "base/ascii.h"

/* Where it stands in the path. Segments for which there is no room are only counted, so that dots
 * behind them are understood; the first of them may stand there in part. */
struct reader {
    struct plain_path *p;
    struct slice rest;
    size_t lost;  /* segments that are not there */
    size_t start; /* of the segment that is read, or of the first that is lost: at its slash */
    size_t dots;  /* of the segment that is read, if it has nothing else */
    bool other;   /* it has something else */
};

/* The next byte, decoded; the rest is not empty. */
static char next_byte(struct slice *rest)
{
    size_t taken = 1;
    char c = rest->ptr[0];
    if (c == '%' && rest->len >= 3) {
        int high = ascii_hex_value(rest->ptr[1]);
        int low = ascii_hex_value(rest->ptr[2]);
        if (high >= 0 && low >= 0) {
            c = (char)(high * 16 + low);
            taken = 3;
        }
    }
    rest->ptr += taken;
    rest->len -= taken;
    return c;
}

static void add_byte(struct reader *r, char c)
{
    if (r->lost == 0 && r->p->len < PLAIN_PATH_MAX) {
        r->p->text[r->p->len++] = c;
    } else if (r->lost == 0) {
        r->lost = 1;
    }
}

/* With its slash. */
static void begin_segment(struct reader *r)
{
    r->dots = 0;
    r->other = false;
    if (r->lost > 0) {
        r->lost++;
        return;
    }
    r->start = r->p->len;
    add_byte(r, '/');
}

/* As if it had not begun. */
static void drop_segment(struct reader *r)
{
    if (r->lost > 0) {
        r->lost--;
    }
    if (r->lost == 0) {
        r->p->len = r->start;
    }
}

static void drop_last(struct reader *r)
{
    if (r->lost > 0) {
        drop_segment(r);
        return;
    }
    while (r->p->len > 0 && r->p->text[--r->p->len] != '/') {
    }
}

/* `last`: nothing follows. */
static void end_segment(struct reader *r, bool last)
{
    bool empty = !r->other && r->dots == 0;
    if (r->other || r->dots > 2 || (empty && last)) {
        return;
    }
    size_t dots = r->dots;
    drop_segment(r);
    if (dots == 2) {
        drop_last(r);
    }
    if (last) {
        begin_segment(r);
    }
}

void plain_path_read(struct plain_path *p, struct slice path)
{
    struct reader r = {.p = p, .rest = path};
    p->len = 0;
    begin_segment(&r);
    if (path.len > 0 && path.ptr[0] == '/') {
        (void)next_byte(&r.rest);
    }
    while (r.rest.len > 0) {
        char c = next_byte(&r.rest);
        if (c == '/') {
            end_segment(&r, false);
            begin_segment(&r);
            continue;
        }
        r.dots += c == '.' ? 1 : 0;
        r.other = r.other || c != '.';
        add_byte(&r, c);
    }
    end_segment(&r, true);
    p->whole = r.lost == 0;
}
