/* SPDX-License-Identifier: Apache-2.0 */
#include "label/labels_condition.h"

/* Keys are qualified names, as labels_keys_init has checked: nothing in them needs an escape. */
void labels_condition_write(const struct labels_keys *k, enum labels_condition_of of,
                            struct buf *out)
{
    static const char *const namespace_of[] = {
        [LABELS_CONDITION_NAMESPACES] = "object.metadata.name",
        [LABELS_CONDITION_RESOURCES] = "request.namespace",
    };
    const char *namespace = k->key[LABELS_NAMESPACE];
    const char *control = k->key[LABELS_CONTROL];
    const char *ignore = k->ignore;
    buf_append_str(out, "!(request.operation == 'UPDATE'"
                        " && [object, oldObject].all(o, o != null && has(o.metadata)"
                        " && has(o.metadata.labels) && type(o.metadata.labels) == map)");
    buf_printf(out,
               " && ('%s' in object.metadata.labels && object.metadata.labels['%s'] == 'true'"
               " && ['%s', '%s', '%s', '%s'].all(k,"
               " (k in object.metadata.labels) == (k in oldObject.metadata.labels)"
               " && (!(k in object.metadata.labels)"
               " || object.metadata.labels[k] == oldObject.metadata.labels[k]))",
               ignore, ignore, ignore, namespace, k->key[LABELS_SHARD_HASH], control);
    buf_printf(out,
               " || ['%s', '%s', '%s'].all(k,"
               " k in object.metadata.labels && k in oldObject.metadata.labels"
               " && object.metadata.labels[k] == oldObject.metadata.labels[k])",
               namespace, k->key[LABELS_SHARD_HASH], control);
    buf_printf(out,
               " && object.metadata.labels['%s'] == '" LABELS_CONTROLLED "'"
               " && has(%s) && object.metadata.labels['%s'] == %s))",
               control, namespace_of[of], namespace, namespace_of[of]);
}
