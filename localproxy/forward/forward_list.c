/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/list_meta.h"
#include "exchange/headers.h"
#include "forward/forward_internal.h"

static void on_object(void *data, struct slice ns)
{
    const struct forward *f = data;
    struct slice of_all = f->attributes.namespace;
    f->ctx->load->counts.of[bucket_load_place(of_all.len > 0 ? of_all : ns)].objects++;
}

/* A list whose objects are counted. */
static bool open_counted(struct forward *f, struct slice type, struct slice coding)
{
    struct bucket_load *load = f->ctx->load;
    bool plain = coding.len == 0 || slice_ieq(coding, SLICE("identity"));
    if (!plain && load->inflated >= BUCKET_LOAD_INFLATED_MAX) {
        f->list = list_meta_new(type, coding);
        load->counts.unread++;
        return f->list != NULL;
    }
    f->list = list_meta_new_counting(type, coding, f->attributes.namespace.len == 0, on_object, f);
    if (f->list == NULL) {
        return false;
    }
    f->inflated = !plain && list_meta_counts(f->list);
    load->inflated += f->inflated;
    load->counts.unread += !list_meta_counts(f->list);
    return true;
}

bool forward_open_list(struct forward *f, const struct http_head *head)
{
    struct slice type = headers_value(head, SLICE("Content-Type"));
    struct slice coding = headers_value(head, SLICE("Content-Encoding"));
    bool announced = head->framing == HTTP_BODY_LENGTH;
    f->asking->coming = announced ? head->content_length : UINT64_MAX;
    if (f->ctx->load != NULL) {
        return open_counted(f, type, coding);
    }
    f->list = list_meta_new(type, coding);
    return f->list != NULL;
}

void forward_note_list(struct forward *f)
{
    struct delivered_versions *delivered = f->upstream->delivered;
    const struct request_attributes *a = &f->attributes;
    struct list_meta_result found;
    list_meta_end(f->list, &found);
    list_meta_free(f->list);
    f->list = NULL;
    if (a->newest && found.resource_version != 0) {
        delivered_newest(delivered, &a->key, found.resource_version);
    }
    if (found.token != 0) {
        delivered_give_page(delivered, &a->key, found.token);
    } else if (found.resource_version != 0) {
        /* The version of a list in pages is that of the first, whose request said which it wants.
         */
        delivered_give_list(delivered, &a->key, found.resource_version, a->newest || a->page != 0);
    } else {
        delivered_give(delivered, &a->key, DELIVERED_ANY);
        delivered_give_page(delivered, &a->key, 0);
    }
}

/* Noted before the client can take it for whole: that may be long before the API server says so,
 * and this process may end, or the rules change, in between. */
void forward_feed_list(struct forward *f, struct slice data)
{
    uint64_t *coming = &f->asking->coming;
    list_meta_feed(f->list, data);
    if (*coming != UINT64_MAX) {
        *coming -= data.len < *coming ? data.len : *coming;
        if (*coming == 0) {
            forward_note_list(f);
        }
    }
}
