/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first byte chooses encoding, compression and length, the second the way the rest is cut. What
 * is learnt must not depend on the pieces, nor on the compression; and where a parser reads the
 * list, it must be what stands there, or nothing.
 */
#include "codec/list_meta.h"

#include <zlib.h>

#include "base/buf.h"
#include "check.h"
#include "pieces.h"
#include "plain_json.h"

enum { PROTOBUF = 1, LONG = 2, GARBLED = 4 };
enum { FILLING = 20000, GZIP = 16 + 9 /* the least window there is */ };

static struct list_meta_result learn(bool protobuf, bool gzip, struct slice body,
                                     enum pieces_way way, uint32_t random)
{
    struct list_meta *m = list_meta_new(protobuf ? SLICE("application/vnd.kubernetes.protobuf")
                                                 : SLICE("application/json"),
                                        gzip ? SLICE("gzip") : SLICE(""));
    CHECK(m != NULL);
    struct pieces p = {.rest = body, .way = way, .random = random};
    for (struct slice piece; pieces_next(&p, &piece);) {
        list_meta_feed(m, piece);
    }
    struct list_meta_result r;
    list_meta_end(m, &r);
    list_meta_free(m);
    return r;
}

static struct slice slice_of_buf(const struct buf *b)
{
    return buf_slice(b);
}

/* A long member before the others, when the text is an object. */
static void lengthen(struct buf *b, struct slice text)
{
    static char filling[FILLING];
    memset(filling, 'x', sizeof filling);
    CHECK(buf_append_str(b, "{\"filling\":\"") == 0);
    CHECK(buf_append(b, filling, sizeof filling) == 0);
    CHECK(buf_append_str(b, "\",") == 0);
    CHECK(text.len < 2 || buf_append(b, text.ptr + 1, text.len - 1) == 0);
}

static void compress_to(struct buf *b, struct slice text)
{
    z_stream z = {.next_in = (unsigned char *)(uintptr_t)text.ptr, .avail_in = (unsigned)text.len};
    CHECK(deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, GZIP, 1, Z_DEFAULT_STRATEGY) == Z_OK);
    size_t room = deflateBound(&z, text.len);
    z.next_out = buf_reserve(b, room);
    CHECK(z.next_out != NULL);
    z.avail_out = (unsigned)room;
    CHECK(deflate(&z, Z_FINISH) == Z_STREAM_END);
    buf_commit(b, room - z.avail_out);
    CHECK(deflateEnd(&z) == Z_OK);
}

static bool same(struct list_meta_result a, struct list_meta_result b)
{
    return a.resource_version == b.resource_version && a.token == b.token;
}

static void check_json(struct slice body, struct list_meta_result said)
{
    cJSON *root = plain_parse(body);
    if (root == NULL || (said.resource_version == 0 && said.token == 0)) {
        cJSON_Delete(root);
        return;
    }
    const cJSON *metadata = plain_get(root, "metadata");
    struct slice token = plain_string(metadata, "continue");
    CHECK(said.resource_version == plain_version(metadata));
    CHECK(said.token == (token.len == 0 ? 0 : list_meta_hash(token)));
    cJSON_Delete(root);
}

/* What is no gzip at all, or is so in part. */
static void check_garbled(bool protobuf, struct slice body, uint32_t random)
{
    struct list_meta_result whole = learn(protobuf, true, body, PIECES_WHOLE, random);
    CHECK(same(whole, learn(protobuf, true, body, PIECES_BYTES, random)));
    CHECK(same(whole, learn(protobuf, true, body, PIECES_RANDOM, random)));
}

static void check_body(bool protobuf, struct slice body, uint32_t random)
{
    struct list_meta_result whole = learn(protobuf, false, body, PIECES_WHOLE, random);
    CHECK(body.len > FILLING || same(whole, learn(protobuf, false, body, PIECES_BYTES, random)));
    CHECK(same(whole, learn(protobuf, false, body, PIECES_RANDOM, random)));
    struct buf zipped = BUF_INIT(1 << 20);
    compress_to(&zipped, body);
    CHECK(same(whole, learn(protobuf, true, slice_of_buf(&zipped), PIECES_RANDOM, random)));
    buf_reset(&zipped);
    if (!protobuf) {
        check_json(body, whole);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    bool protobuf = (data[0] & PROTOBUF) != 0;
    struct slice text = slice_of((const char *)data + 2, size - 2);
    struct buf b = BUF_INIT(1 << 20);
    if ((data[0] & GARBLED) != 0) {
        check_garbled(protobuf, text, data[1]);
    } else if ((data[0] & LONG) != 0) {
        lengthen(&b, text);
        check_body(protobuf, slice_of_buf(&b), data[1]);
    } else {
        check_body(protobuf, text, data[1]);
    }
    buf_reset(&b);
    return 0;
}
