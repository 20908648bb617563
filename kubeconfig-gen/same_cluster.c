/* SPDX-License-Identifier: Apache-2.0 */
#include "same_cluster.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/array.h"
#include "base/file.h"
#include "base/url.h"
#include "net/address.h"
#include "net/own_address.h"

static const char *text_of(const struct kubeconfig_entry *entry, const char *field)
{
    struct err ignored = ERR_INIT;
    const char *text = kubeconfig_string(entry, field, &ignored);
    return text == NULL ? "" : text;
}

static bool is_this_machine(const struct url *server)
{
    struct sockaddr_storage address;
    return strcasecmp(server->host, "localhost") == 0 ||
           (net_address_literal(server->host, server->port, &address) == 0 &&
            net_address_is_loopback(&address));
}

static bool is_same_url(const struct url *a, const struct url *b)
{
    return a->https == b->https && a->port == b->port && strcasecmp(a->host, b->host) == 0 &&
           strcmp(a->path, b->path) == 0;
}

/* The file that it is, for each kubeconfig means a path from its own folder; one that is not there
 * by its path. NULL without memory. The caller frees. */
static char *file_of(const struct kubeconfig_entry *entry, const char *path)
{
    char *whole = file_resolve(entry->file->path, path);
    char *real = whole == NULL ? NULL : realpath(whole, NULL);
    if (real == NULL && errno != ENOMEM) {
        return whole;
    }
    free(whole);
    return real;
}

static int is_same_file(const struct kubeconfig_entry *a, const char *x,
                        const struct kubeconfig_entry *b, const char *y)
{
    char *one = file_of(a, x);
    char *other = file_of(b, y);
    int same = one == NULL || other == NULL ? -ENOMEM : strcmp(one, other) == 0;
    free(one);
    free(other);
    return same;
}

/* Data counts before a file, as for clients. Without either an address has to tell. */
static int is_same_authority(const struct kubeconfig_entry *a, const struct kubeconfig_entry *b,
                             const struct url *server)
{
    const char *data[] = {text_of(a, "certificate-authority-data"),
                          text_of(b, "certificate-authority-data")};
    const char *file[] = {text_of(a, "certificate-authority"), text_of(b, "certificate-authority")};
    if (data[0][0] != '\0' || data[1][0] != '\0') {
        return strcmp(data[0], data[1]) == 0;
    }
    if (file[0][0] == '\0' && file[1][0] == '\0') {
        return !is_this_machine(server);
    }
    return file[0][0] == '\0' || file[1][0] == '\0' ? 0 : is_same_file(a, file[0], b, file[1]);
}

int same_cluster(const struct kubeconfig_entry *a, const struct kubeconfig_entry *b)
{
    static const char *const ways[] = {"proxy-url", "tls-server-name"};
    struct url x;
    struct url y;
    struct err ignored = ERR_INIT;
    if (a == b) {
        return 1;
    }
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        if (strcmp(text_of(a, ways[i]), text_of(b, ways[i])) != 0) {
            return 0;
        }
    }
    if (url_parse(text_of(a, "server"), &x, &ignored) != 0 ||
        url_parse(text_of(b, "server"), &y, &ignored) != 0 || !is_same_url(&x, &y)) {
        return 0;
    }
    return is_same_authority(a, b, &x);
}
