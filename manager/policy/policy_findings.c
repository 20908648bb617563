/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/buf.h"
#include "base/xalloc.h"
#include "policy/policy.h"

void policy_findings_deinit(struct policy_findings *f)
{
    warnings_deinit(&f->errors);
    warnings_deinit(&f->warnings);
}

bool policy_findings_failed(const struct policy_findings *f)
{
    return f->errors.count > 0;
}

int policy_findings_join(const struct policy_findings *f, struct err *e)
{
    struct buf text = BUF_INIT(WARNINGS_MAX * (ERR_MSG_MAX + 2));
    const struct warnings *list = &f->errors;
    size_t shown = 0;
    if (!policy_findings_failed(f)) {
        return 0;
    }
    /* What would be cut is counted instead. */
    for (; shown < list->count; shown++) {
        size_t before = text.len;
        (void)buf_printf(&text, "%s%s", shown == 0 ? "" : "; ", list->items[shown]);
        if (shown > 0 && text.len > ERR_MSG_MAX - sizeof "; and 18446744073709551615 more") {
            buf_truncate(&text, before);
            break;
        }
    }
    if (list->count + list->dropped > shown) {
        (void)buf_printf(&text, "; and %zu more", list->count + list->dropped - shown);
    }
    (void)err_set(e, -EINVAL, "%s", xptr(buf_cstr(&text)));
    buf_reset(&text);
    return -EINVAL;
}
