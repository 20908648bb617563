/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as an AdmissionReview. What is taken has all its strings, and can be answered: allowed,
 * with a patch and warnings, and refused with a piece of the input as the message. The answer is
 * good JSON with the uid and the version of the question.
 */
#include "object/admission_review.h"

#include <string.h>

#include "check.h"
#include "json/json.h"

static const char *text_of(const cJSON *object, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
}

static void check_answer(const struct admission_request *r, const struct admission_answer *a)
{
    struct buf out = BUF_INIT((size_t)4 * 1024 * 1024);
    struct err e = ERR_INIT;
    CHECK(admission_answer_write(r, a, &out) == 0);
    cJSON *answer = json_parse((const char *)buf_data(&out), out.len, &e);
    const cJSON *response = cJSON_GetObjectItemCaseSensitive(answer, "response");
    CHECK(strcmp(text_of(answer, "apiVersion"), r->api_version) == 0);
    CHECK(strcmp(text_of(response, "uid"), r->uid) == 0);
    CHECK(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(response, "allowed")) == (a->refusal == 0));
    CHECK((text_of(response, "patch") != NULL) == (a->patch != NULL && a->refusal == 0));
    cJSON_Delete(answer);
    buf_reset(&out);
}

static void check_request(const struct admission_request *r)
{
    CHECK(r->uid[0] != '\0' && r->resource.resource[0] != '\0');
    CHECK(r->name != NULL && r->namespace != NULL && r->user != NULL && r->kind != NULL);
    CHECK(r->resource.group != NULL && r->resource.version != NULL);
    CHECK(r->resource.subresource != NULL);
    CHECK(r->object == NULL || cJSON_IsObject(r->object));
    CHECK(admission_operation_name(r->operation)[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct admission_request r;
    struct err e = ERR_INIT;
    if (admission_request_read(&r, slice_of((const char *)data, size), ADMISSION_OBJECTS, &e) !=
        0) {
        CHECK(e.code < 0 && e.msg[0] != '\0');
        return 0;
    }
    check_request(&r);
    struct warnings warnings = WARNINGS_INIT;
    char piece[64] = "";
    memcpy(piece, data + size / 2, size / 2 < sizeof piece ? size / 2 : sizeof piece - 1);
    warnings_add(&warnings, "%s", piece);
    cJSON *patch = cJSON_CreateArray();
    CHECK(cJSON_AddItemToArray(patch, cJSON_CreateString(r.uid)));
    check_answer(&r, &(struct admission_answer){.patch = patch, .warnings = &warnings});
    check_answer(&r, &(struct admission_answer){.refusal = 403, .message = piece});
    cJSON_Delete(patch);
    warnings_deinit(&warnings);
    admission_request_deinit(&r);
    return 0;
}
