/* SPDX-License-Identifier: Apache-2.0 */
#include "crypto/mbedtls/certificate_chain.h"

#include <errno.h>

#include "crypto/name_constraints.h"
#include "crypto/x509.h"

static bool read(const mbedtls_x509_crt *crt, struct x509 *out)
{
    return x509_read(slice_of((const char *)crt->raw.p, crt->raw.len), out);
}

int certificate_chain_add(struct certificate_chain *chain, const mbedtls_x509_crt *crt,
                          struct err *e)
{
    struct x509 c;
    struct x509 authority;
    if (!read(crt, &c)) {
        return err_set(e, -EACCES, "a certificate of the chain cannot be read");
    }
    for (size_t i = 0; i < chain->count; i++) {
        if (!read(chain->limiting[i], &authority)) {
            return err_set(e, -EACCES, "a certificate of the chain cannot be read");
        }
        int rc = name_constraints_check(&authority, &c, e);
        if (rc != 0) {
            return rc;
        }
    }
    if (name_constraints_present(&c)) {
        if (chain->count == CERTIFICATE_CHAIN_MAX) {
            return err_set(e, -EACCES, "the chain of certificates is too long");
        }
        chain->limiting[chain->count++] = crt;
    }
    return 0;
}
