/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Servers speak no more than TLS 1.2 where the environment has TEST_TLS_MAX: tests that are linked
 * with this run a second time so, with a library that has TLS 1.3.
 */
#include <stdlib.h>

#include "crypto/mbedtls/tls_internal.h"

struct tls_config *__real_tls_config_new_server(const struct tls_server_options *o, struct err *e);
struct tls_config *__wrap_tls_config_new_server(const struct tls_server_options *o, struct err *e);

struct tls_config *__wrap_tls_config_new_server(const struct tls_server_options *o, struct err *e)
{
    struct tls_config *c = __real_tls_config_new_server(o, e);
    if (c != NULL && getenv("TEST_TLS_MAX") != NULL) {
        compat_conf_no_13(&c->conf);
    }
    return c;
}
