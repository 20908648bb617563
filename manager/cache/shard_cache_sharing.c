/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which namespaces are shared. What limits by the hash come to depends on it, those of other
 * operators too. Before all configs are known nothing is compiled, and nobody knows which are
 * shared; where the kind is not installed, none is.
 */
#include "cache/shard_cache_internal.h"

static int find_shared(const struct shard_cache *w, struct sharing_set *out)
{
    int rc = 0;
    for (const struct config *c = NULL; rc == 0 && (c = next_config(w, c)) != NULL;) {
        const struct sharing_consent consent = {.ns = c->seen.ns, .any = &w->shareable};
        rc = sharing_set_add(out, c->object, &consent);
    }
    return rc;
}

void shard_cache_share_namespaces(struct shard_cache *w)
{
    struct sharing_set now = {.count = 0};
    if (!informer_synced(w->configs)) {
        return;
    }
    if (find_shared(w, &now) != 0) {
        sharing_set_deinit(&now);
        informer_list_again(w->configs, INFORMER_AGAIN_MS);
        return;
    }
    if (sharing_set_equal(&now, &w->shared)) {
        sharing_set_deinit(&now);
        return;
    }
    sharing_set_deinit(&w->shared);
    w->shared = now;
    for (struct config *c = NULL; (c = next_config(w, c)) != NULL;) {
        /* One that was given up has nothing to be compiled. */
        if (c->spec.by_hash && c->spec.text != NULL && c->spec.compiled) {
            shard_cache_renew(w, c);
        }
    }
    shard_cache_tell_shared(w);
}

void shard_cache_share_nothing(struct shard_cache *w)
{
    if (w->shared.unknown) {
        w->shared.unknown = false;
        shard_cache_tell_shared(w);
    }
}

const struct sharing_set *shard_cache_shared(const struct shard_cache *w)
{
    return &w->shared;
}
