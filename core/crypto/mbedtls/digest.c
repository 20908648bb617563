/* SPDX-License-Identifier: Apache-2.0 */
#include "crypto/digest.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include <mbedtls/base64.h>
#include <mbedtls/md.h>
#include <mbedtls/platform_util.h>

#include "base/ascii.h"

#define SHA256_LEN 32

void sha256_hex(const void *data, size_t len, char out[SHA256_HEX_LEN + 1])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char sum[SHA256_LEN];
    const mbedtls_md_info_t *sha256 = mbedtls_md_info_from_type(MBEDTLS_MD_SHA256);
    /* Cannot fail: the whole digest is computed on the stack. */
    if (mbedtls_md(sha256, data, len, sum) != 0) {
        abort();
    }
    for (size_t i = 0; i < SHA256_LEN; i++) {
        out[2 * i] = digits[sum[i] >> 4];
        out[2 * i + 1] = digits[sum[i] & 15];
    }
    out[SHA256_HEX_LEN] = '\0';
}

/* The library takes white space at some places only, and forgives missing padding. */
static int decode_dense(const unsigned char *text, size_t len, struct buf *out)
{
    size_t n = 0;
    if (len % 4 != 0) {
        return -EINVAL;
    }
    if (mbedtls_base64_decode(NULL, 0, &n, text, len) != MBEDTLS_ERR_BASE64_BUFFER_TOO_SMALL) {
        return -EINVAL;
    }
    if (n > out->max - out->len) {
        return -ENOBUFS;
    }
    uint8_t *to = buf_reserve(out, n);
    if (to == NULL) {
        return -ENOMEM;
    }
    if (mbedtls_base64_decode(to, n, &n, text, len) != 0) {
        return -EINVAL;
    }
    buf_commit(out, n);
    return 0;
}

int base64_decode(struct slice text, struct buf *out)
{
    unsigned char *dense = malloc(text.len + 1);
    if (dense == NULL) {
        return -ENOMEM;
    }
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (!ascii_is_space(text.ptr[i])) {
            dense[len++] = (unsigned char)text.ptr[i];
        }
    }
    int rc = len == 0 ? 0 : decode_dense(dense, len, out);
    mbedtls_platform_zeroize(dense, text.len + 1);
    free(dense);
    return rc;
}

int base64_encode(struct slice data, struct buf *out)
{
    size_t len = (data.len / 3 + (data.len % 3 != 0)) * 4;
    if (data.len == 0) {
        return 0;
    }
    if (data.len > SIZE_MAX / 4 || len > out->max - out->len) {
        return -ENOBUFS;
    }
    /* The library ends its output with a NUL, for which every buffer keeps a byte. */
    uint8_t *to = buf_reserve(out, len);
    if (to == NULL) {
        return -ENOMEM;
    }
    if (mbedtls_base64_encode(to, len + 1, &len, (const unsigned char *)data.ptr, data.len) != 0) {
        return -EINVAL;
    }
    buf_commit(out, len);
    return 0;
}
