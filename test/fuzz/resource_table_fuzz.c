/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever a server says it has: the paths made of it are ones, and copies are the same.
 */
#include "kube/client/resource_table.h"

#include <string.h>

#include "check.h"
#include "kube/client/collection.h"
#include "json/json.h"

static void check_item(const struct discovery_resource *r)
{
    struct buf path = BUF_INIT(SIZE_MAX);
    CHECK(discovery_path(r, "ns", &path) == 0);
    CHECK(collection_is_path(buf_cstr(&path)));
    CHECK(strstr(buf_cstr(&path), "//") == NULL && strstr(buf_cstr(&path), "..") == NULL);
    buf_reset(&path);
}

static void check_table(struct resource_table *t)
{
    struct resource_table copy = {0};
    resource_table_finish(t);
    for (size_t i = 0; i < t->count; i++) {
        check_item(&t->items[i]);
    }
    resource_table_copy(&copy, t, "", NULL);
    resource_table_copy_groups(&copy, t);
    resource_table_finish(&copy);
    CHECK(resource_table_same(t, &copy));
    resource_table_deinit(&copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct resource_version version = {.group = "apps", .version = "v1"};
    struct resource_table t = {0};
    struct list versions;
    struct err e = ERR_INIT;
    cJSON *root = json_parse((const char *)data, size, NULL);
    list_init(&versions);
    if (root != NULL) {
        int rc = resource_table_add_root(&t, root, &versions, &e);
        CHECK(rc == 0 || e.msg[0] != '\0');
        CHECK(rc == 0 || resource_table_add_list(&t, root, &version, &e) == 0 || e.msg[0] != '\0');
        check_table(&t);
    }
    while (!list_empty(&versions)) {
        struct resource_version *v = LIST_ITEM(versions.next, struct resource_version, link);
        list_remove(&v->link);
        free(v);
    }
    resource_table_deinit(&t);
    cJSON_Delete(root);
    return 0;
}
