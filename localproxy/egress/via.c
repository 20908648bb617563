/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/via.h"

#include <stdlib.h>
#include <string.h>

#include "kube/access/proxy.h"
#include "net/dial_gate.h"

struct via {
    struct kube_proxy proxy;
    struct http_proxy http; /* views into it */
    struct net_dial_gate gate;
    char *no_proxy;
    char name[KUBE_PROXY_NAME_SIZE];
};

static int fill(struct via *v, const char *url, const char *no_proxy, struct err *e)
{
    v->no_proxy = strdup(no_proxy != NULL ? no_proxy : "");
    if (v->no_proxy == NULL) {
        return err_memory(e);
    }
    if (url == NULL || url[0] == '\0') {
        return 0;
    }
    int rc = kube_proxy_parse(url, &v->proxy, e);
    if (rc == 0) {
        v->http = (struct http_proxy){
            .host = v->proxy.address.host,
            .port = v->proxy.address.port,
            .authorization = v->proxy.authorization,
            .gate = &v->gate,
        };
    }
    return rc;
}

struct via *via_new(const char *url, const char *no_proxy, struct err *e)
{
    struct via *v = calloc(1, sizeof *v);
    if (v == NULL) {
        err_memory(e);
        return NULL;
    }
    net_dial_gate_init(&v->gate, NULL, NULL, VIA_LOOKUPS_MAX);
    if (fill(v, url, no_proxy, e) != 0) {
        via_free(v);
        return NULL;
    }
    kube_proxy_name(&v->proxy, v->name);
    return v;
}

void via_free(struct via *v)
{
    if (v == NULL) {
        return;
    }
    net_dial_gate_deinit(&v->gate);
    kube_proxy_deinit(&v->proxy);
    free(v->no_proxy);
    free(v);
}

const struct http_proxy *via_of(const struct via *v, const struct destination *t)
{
    struct url to = {.https = t->https, .port = (uint16_t)t->port};
    if (v->proxy.url == NULL) {
        return NULL;
    }
    memcpy(to.host, t->host, sizeof to.host);
    return kube_proxy_excepted(&to, v->no_proxy) ? NULL : &v->http;
}

const char *via_name(const struct via *v)
{
    return v->name;
}
