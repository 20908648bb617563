/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first bytes of a TLS connection. What is said of them does not depend on how many follow: of
 * each shorter piece it is the same, or that there is more to come. A name can stand in a log.
 */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "egress/client_hello.h"

static enum client_hello_verdict read_piece(const uint8_t *data, size_t len,
                                            struct client_hello *out)
{
    /* A copy, so that reads outside the piece are seen. */
    char *copy = malloc(len + 1);
    CHECK(copy != NULL);
    memcpy(copy, data, len);
    char *tight = realloc(copy, len > 0 ? len : 1);
    CHECK(tight != NULL);
    enum client_hello_verdict verdict = client_hello_read(slice_of(tight, len), out);
    free(tight);
    return verdict;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct client_hello whole;
    struct client_hello piece;
    enum client_hello_verdict verdict = read_piece(data, size, &whole);
    size_t step = 1 + size / 64;
    bool settled = false;
    for (size_t len = 0; len < size; len += step) {
        enum client_hello_verdict v = read_piece(data, len, &piece);
        CHECK(v == verdict || v == CLIENT_HELLO_MORE);
        CHECK(!settled || v == verdict);
        settled = v != CLIENT_HELLO_MORE;
        if (v == CLIENT_HELLO_READ) {
            CHECK(strcmp(piece.name, whole.name) == 0);
        }
    }
    if (verdict == CLIENT_HELLO_READ) {
        CHECK(strspn(whole.name, "abcdefghijklmnopqrstuvwxyz0123456789-_.:") == strlen(whole.name));
        CHECK(data[0] >= 20 && data[0] <= 22 && size > 40);
    }
    return 0;
}
