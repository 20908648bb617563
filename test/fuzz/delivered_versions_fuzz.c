/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as what an ended process left in its file: points, resources and accounts. Whatever is
 * taken over can be worked with, and taken over again; then it is the same.
 */
#include "upstream/delivered_versions_internal.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { CALLS = 64 };

/* The first third of the input, and so on. */
static uint64_t fill(void *pool, size_t item, size_t max, const uint8_t *data, size_t size)
{
    size_t n = size / item < max ? size / item : max;
    memcpy(pool, data, n * item);
    return n;
}

static void work(struct delivered_versions *r, const uint8_t *data, size_t size)
{
    for (size_t i = 0; i + 4 <= size && i < (size_t)CALLS * 4; i += 4) {
        struct delivered_key key = {data[i] % 4, data[i + 1] % 4, data[i + 2] % 4};
        uint64_t version = data[i + 3];
        delivered_saw(r, &key, version);
        (void)delivered_watch(r, &key, version);
        (void)delivered_page(r, &key, version);
        delivered_give(r, &key, (struct delivered_range){version, version + data[i] % 3});
        struct delivered_account *a = delivered_account_open(r, &key, version);
        CHECK(a != NULL);
        delivered_account_close(r, a, data[i] % 2 == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct delivered_versions *old = calloc(1, sizeof *old);
    struct delivered_versions *r = delivered_new(0);
    struct delivered_versions *again = delivered_new(0);
    size_t part = size / 3;
    CHECK(old != NULL && r != NULL && again != NULL);
    old->point_count =
        fill(old->point_pool, sizeof old->point_pool[0], DELIVERED_POINTS_MAX, data, part);
    old->resource_count = fill(old->resource_pool, sizeof old->resource_pool[0],
                               DELIVERED_RESOURCES_MAX, data + part, part);
    old->account_count = fill(old->account_pool, sizeof old->account_pool[0],
                              DELIVERED_ACCOUNTS_MAX, data + 2 * part, part);
    CHECK(delivered_take_over(r, old));
    CHECK(r->account_count == 0 && r->busy == 0);
    work(r, data, size);
    CHECK(delivered_take_over(again, r));
    CHECK(again->point_count <= r->point_count);
    delivered_free(again);
    delivered_free(r);
    free(old);
    return 0;
}
