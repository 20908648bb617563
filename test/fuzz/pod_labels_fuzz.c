/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever stands in the file of the pod's labels: each label that is read has a key, and they are
 * no more than there are lines.
 */
#include "traffic/pod_labels.h"

#include <errno.h>
#include <string.h>

#include "check.h"
#include "kube/name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pod_label_list list;
    struct err e = ERR_INIT;
    struct slice text = slice_of((const char *)data, size);
    int rc = pod_label_list_parse(text, &list, &e);
    CHECK(rc == 0 || rc == -EINVAL || rc == -E2BIG);
    if (rc != 0) {
        CHECK(list.count == 0 && list.labels == NULL && e.msg[0] != '\0');
        return 0;
    }
    CHECK(list.count <= POD_LABELS_MAX);
    for (size_t i = 0; i < list.count; i++) {
        CHECK(name_check_qualified(list.labels[i].key) == NULL);
        CHECK(list.labels[i].value.len <= size);
    }
    pod_label_list_deinit(&list);
    return 0;
}
