/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as what an ended process left in its file: points, resources and accounts. Whatever is
 * taken over can be worked with, and taken over again; then it is the same.
 */
#include "guard/resume_internal.h"

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

static void work(struct resume *r, const uint8_t *data, size_t size)
{
    for (size_t i = 0; i + 4 <= size && i < (size_t)CALLS * 4; i += 4) {
        struct resume_key key = {data[i] % 4, data[i + 1] % 4, data[i + 2] % 4};
        uint64_t version = data[i + 3];
        resume_saw(r, &key, version);
        (void)resume_watch(r, &key, version);
        (void)resume_page(r, &key, version);
        resume_give(r, &key, (struct resume_range){version, version + data[i] % 3});
        struct resume_account *a = resume_account_open(r, &key);
        CHECK(a != NULL);
        resume_account_close(r, a, data[i] % 2 == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct resume *old = calloc(1, sizeof *old);
    struct resume *r = resume_new(0);
    struct resume *again = resume_new(0);
    size_t part = size / 3;
    CHECK(old != NULL && r != NULL && again != NULL);
    old->point_count =
        fill(old->point_pool, sizeof old->point_pool[0], RESUME_POINTS_MAX, data, part);
    old->resource_count = fill(old->resource_pool, sizeof old->resource_pool[0],
                               RESUME_RESOURCES_MAX, data + part, part);
    old->account_count = fill(old->account_pool, sizeof old->account_pool[0], RESUME_ACCOUNTS_MAX,
                              data + 2 * part, part);
    CHECK(resume_take_over(r, old));
    CHECK(r->account_count == 0 && r->busy == 0);
    work(r, data, size);
    CHECK(resume_take_over(again, r));
    CHECK(again->point_count <= r->point_count);
    resume_free(again);
    resume_free(r);
    free(old);
    return 0;
}
