/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a plugin prints is refused with a message, or gives a credential that is complete, still
 * valid, and fit for a header.
 */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "kube/access/exec_credential.h"

enum { NOW = 1700000000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct exec_credential c;
    struct err e = ERR_INIT;
    char *copy = malloc(size > 0 ? size : 1);
    CHECK(copy != NULL);
    if (size > 0) {
        memcpy(copy, data, size);
    }
    int rc =
        exec_credential_parse(slice_of(copy, size), "client.authentication.k8s.io/v1", NOW, &c, &e);
    free(copy);
    if (rc != 0) {
        CHECK(e.msg[0] != '\0' && c.token == NULL && c.key == NULL);
        return 0;
    }
    CHECK(c.token != NULL || c.cert != NULL);
    CHECK((c.cert == NULL) == (c.key == NULL));
    CHECK(c.expires_at == 0 || c.expires_at > NOW);
    for (const char *p = c.token != NULL ? c.token : ""; *p != '\0'; p++) {
        CHECK((unsigned char)*p > ' ' && (unsigned char)*p < 0x7f);
    }
    exec_credential_deinit(&c);
    return 0;
}
