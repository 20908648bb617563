/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A URL that is taken has a host and a port that can go into a request as they are, and its parts,
 * put together again, are taken as the same URL.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/url.h"
#include "check.h"

static void check_url(const struct url *u)
{
    char host[URL_HOST_PORT_SIZE];
    char text[URL_HOST_PORT_SIZE + URL_PATH_MAX + 16];
    struct url again;
    struct err e = ERR_INIT;
    url_host_port(u, host);
    CHECK(u->port != 0 && host[0] != '\0' && strpbrk(host, " \r\n/@?#%") == NULL);
    CHECK(u->path[0] == '\0' || (u->path[0] == '/' && u->path[strlen(u->path) - 1] != '/'));
    (void)snprintf(text, sizeof text, "http%s://%s%s", u->https ? "s" : "", host, u->path);
    CHECK(url_parse(text, &again, &e) == 0);
    CHECK(again.https == u->https && again.port == u->port);
    CHECK(strcmp(again.path, u->path) == 0);
    size_t bare = strcspn(u->host, "%"); /* a zone does not go over the wire */
    CHECK(strlen(again.host) == bare && strncmp(again.host, u->host, bare) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct url u;
    struct err e = ERR_INIT;
    char *text = malloc(size + 1);
    CHECK(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    if (url_parse(text, &u, &e) == 0) {
        check_url(&u);
    } else {
        CHECK(e.code < 0 && e.msg[0] != '\0');
    }
    free(text);
    return 0;
}
