/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admission_review.h - AdmissionReview: what the API server asks a webhook, and the answer.
 *
 * Source: k8s.io/api/admission v1 and v1beta1, which differ in what an answer may hold. The answer
 * has the version of the question.
 */
#ifndef MANAGER_OBJECT_ADMISSION_REVIEW_H
#define MANAGER_OBJECT_ADMISSION_REVIEW_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "object/warnings.h"

#define ADMISSION_REVIEW_MAX (8 * 1024 * 1024) /* bytes of a question: two objects and more */

/* Values (fields, items, and what they are in) of an object, and of all else in a review. A byte of
 * JSON can take 60 of memory, so that its size alone bounds nothing. The largest objects that etcd
 * takes (1.5 MiB) stay below it unless most of their values are shorter than five characters. */
#define ADMISSION_VALUES_MAX 150000

/* An API server cuts longer warnings, or drops all of them. */
#define ADMISSION_WARNING_MAX 256

enum admission_operation {
    ADMISSION_CREATE,
    ADMISSION_UPDATE,
    ADMISSION_DELETE,
    ADMISSION_CONNECT,
};

struct admission_resource {
    const char *group; /* "" is the core group */
    const char *version;
    const char *resource;    /* plural, as in "pods" */
    const char *subresource; /* "" for none */
};

/* How much of the objects is read. */
enum admission_parts {
    ADMISSION_OBJECTS,
    ADMISSION_LABELS, /* name, namespace, labels and deletionTimestamp of their metadata alone; of a
                         pod that is created the annotations, too, and of a new or changed spec the
                         same of the metadata of its template */
};

/* All strings and objects live as long as the request; strings that are absent are "". */
struct admission_request {
    const char *api_version; /* of the review */
    const char *uid;
    enum admission_operation operation;
    struct admission_resource resource; /* as the webhook is configured */
    const char *kind;
    const char *namespace; /* "" for what has none */
    const char *name;      /* "" where the server is to make one up */
    const char *user;
    bool dry_run;            /* nothing may be changed elsewhere on its account */
    const cJSON *object;     /* NULL for DELETE and CONNECT without options */
    const cJSON *old_object; /* NULL for CREATE */
    /* The object has more than ADMISSION_VALUES_MAX values: what there is of it, and of the old
     * one, is as for ADMISSION_LABELS. Of an old one that together with it has more, too. */
    bool cut;
    bool same_spec; /* both objects have one, the same to the byte */
    cJSON *root;    /* all but the objects */
    cJSON *objects[2];
};

struct admission_answer {
    unsigned refusal;    /* an HTTP status code; 0: allowed */
    const char *message; /* why it is refused; need not be valid UTF-8 */
    const cJSON *patch;  /* of JSON Patch operations; NULL or `[]`: no change; not when refused */
    const struct warnings *warnings; /* may be NULL; kubectl shows them. v1beta1 has none */
};

/* Reads a question, with its objects whole or in part. 0, then admission_request_deinit is due;
 * else nothing is held and it cannot be answered as a review: -EINVAL or -E2BIG (HTTP 400 and 413,
 * with the message). Uses nothing but its arguments: any thread may. */
MUST_CHECK int admission_request_read(struct admission_request *r, struct slice text,
                                      enum admission_parts parts, struct err *e);
/* What it holds of objects, which may be Secrets, is overwritten: they are the most of it, and may
 * go before the rest. */
void admission_request_drop_objects(struct admission_request *r);
void admission_request_deinit(struct admission_request *r);

/* "CREATE" and so on. */
const char *admission_operation_name(enum admission_operation op);

/* Appends the answer as JSON. 0 or -ENOBUFS; on error `out` is as it was. */
MUST_CHECK int admission_answer_write(const struct admission_request *r,
                                      const struct admission_answer *a, struct buf *out);

#endif
