/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/gunzip.h"

#include <errno.h>
#include <stdlib.h>

#define ZLIB_CONST
#include <zlib.h>

enum {
    INFLATED_MAX = 16 * 1024,
    INFLATED_FIRST = 1024,
    GZIP_ONLY = 16 + MAX_WBITS, /* inflateInit2 */
};

struct gunzip {
    z_stream zip;
};

struct gunzip *gunzip_new(void)
{
    struct gunzip *g = calloc(1, sizeof *g);
    if (g == NULL || inflateInit2(&g->zip, GZIP_ONLY) != Z_OK) {
        free(g);
        return NULL;
    }
    (void)inflateValidate(&g->zip, 0);
    return g;
}

void gunzip_free(struct gunzip *g)
{
    if (g != NULL) {
        (void)inflateEnd(&g->zip);
        free(g);
    }
}

static bool is_bomb(const struct gunzip *g)
{
    return g->zip.total_out > GUNZIP_ANY_RATIO &&
           g->zip.total_out / GUNZIP_RATIO_MAX > g->zip.total_in;
}

int gunzip_feed(struct gunzip *g, struct slice bytes, gunzip_cb cb, void *data)
{
    unsigned char inflated[INFLATED_MAX];
    int rc;
    bool more;
    g->zip.next_in = (const unsigned char *)bytes.ptr;
    g->zip.avail_in = (unsigned)bytes.len;
    do {
        unsigned room = g->zip.total_out == 0 ? INFLATED_FIRST : INFLATED_MAX;
        g->zip.next_out = inflated;
        g->zip.avail_out = room;
        rc = inflate(&g->zip, Z_NO_FLUSH);
        if (is_bomb(g)) {
            return -EPROTO;
        }
        more = cb(data, slice_of((const char *)inflated, room - g->zip.avail_out));
    } while (more && rc == Z_OK && g->zip.avail_out == 0);
    /* Z_BUF_ERROR: there was nothing left to do. */
    return rc == Z_OK || rc == Z_BUF_ERROR || rc == Z_STREAM_END ? 0 : -EPROTO;
}
