/* SPDX-License-Identifier: Apache-2.0 */
#include "crypto/hmac.h"

#include <errno.h>
#include <string.h>

#include <gcrypt.h>

size_t hmac_size(enum hmac_hash hash)
{
    return hash == HMAC_SHA256 ? 32 : 48;
}

int hmac(enum hmac_hash hash, struct slice key, struct slice data, uint8_t *out)
{
    gcry_md_hd_t md;
    int algorithm = hash == HMAC_SHA256 ? GCRY_MD_SHA256 : GCRY_MD_SHA384;
    if (gcry_md_open(&md, algorithm, GCRY_MD_FLAG_HMAC) != 0) {
        return -ENOMEM;
    }
    int rc = -EINVAL;
    if (gcry_md_setkey(md, key.ptr, key.len) == 0) {
        gcry_md_write(md, data.ptr, data.len);
        memcpy(out, gcry_md_read(md, algorithm), hmac_size(hash));
        rc = 0;
    }
    gcry_md_close(md); /* overwrites what it held */
    return rc;
}
