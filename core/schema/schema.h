/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema.h - one table per object: its fields as rows, from which it is read, checked, written and
 * described.
 *
 * A row names a field, its type, its bounds, the member of a C struct that takes its value, and its
 * help. schema_read() fills the struct and reports what is wrong, in the words of Kubernetes' own
 * validation; openapi.h makes the schema of a CustomResourceDefinition of the same rows, and the
 * reference page.
 *
 * A field that is null counts as absent, as the API server has it. A member whose field is absent
 * or wrong keeps what the row calls `absent`, or zero; a text is "" then, never NULL.
 */
#ifndef CORE_SCHEMA_SCHEMA_H
#define CORE_SCHEMA_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "base/slice.h"

/* Messages are cut where a path is longer than this: bytes. */
#define SCHEMA_PATH_MAX 192
/* Errors after which reading stops: nobody reads more of them. */
#define SCHEMA_ERRORS_MAX 256

enum schema_type {
    SCHEMA_TEXT,     /* const char *; `min` and `max` bytes */
    SCHEMA_BOOL,     /* bool */
    SCHEMA_NUMBER,   /* uint32_t: a whole number from `min` to `max`; or with `words` the first
                        of these, which is 0 */
    SCHEMA_NUMBER64, /* uint64_t: likewise, up to 2^53 */
    SCHEMA_TIME,     /* int64_t: seconds since 1970; as RFC 3339 has it, or as a number */
    SCHEMA_DURATION, /* uint64_t: milliseconds, from `min` to `max`; a part of one counts as one */
    SCHEMA_PERCENT,  /* uint32_t: parts of SCHEMA_PPM; a whole number or a text, "0.5" */
    SCHEMA_WORD,     /* unsigned: the index of its value in `words` */
    SCHEMA_CONSTANT, /* nothing: must be the first of `words` */
    SCHEMA_BITS,     /* uint32_t: a list of whole numbers from `min` to `max`, at most 31 */
    SCHEMA_TEXTS,    /* struct schema_texts: `min` to `max` entries */
    SCHEMA_PART,     /* the struct of `object`, in place */
    SCHEMA_OBJECT,   /* a pointer to the struct of `object`; NULL when it is absent */
    SCHEMA_LIST,     /* struct schema_list: `min` to `max` of `object` */
    SCHEMA_SELECTOR, /* const cJSON *: a LabelSelector, whose matchExpressions are a list; its
                        caller parses it, and refuses more than `max` requirements */
    SCHEMA_TEXT_MAP, /* const cJSON *: an object of strings, and of nulls for "" */
    SCHEMA_TREE,     /* const cJSON *: anything, which its caller reads */
};

#define SCHEMA_PPM 1000000 /* parts of a percentage: 100 */

struct schema_texts {
    const char *const *items;
    size_t count;
};

struct schema_list {
    void *items; /* an array of the object's struct */
    size_t count;
};

enum schema_flags {
    SCHEMA_NULLABLE = 1, /* null is "": older API servers take one for the other */
    SCHEMA_KEYED = 2,    /* of a list: the first row of its object must differ, where it is there */
    SCHEMA_DISTINCT = 4, /* of texts: they must differ */
    SCHEMA_EMPTY = 8,    /* a required text may be "" */
    SCHEMA_WANTED = 16,  /* the API server requires it; what is stored without it is read */
    SCHEMA_NULL_PASSES = 32, /* null passes the API server, as older ones take "" for it; it is
                                refused when it is read */
    SCHEMA_SECONDS = 64,     /* of a time: it is written as a number */
    SCHEMA_LENIENT = 128,    /* what is wrong with it is not reported */
};

struct schema_object;

struct schema_field {
    const char *name;
    enum schema_type type;
    size_t offset;        /* of the member */
    const char *required; /* NULL: it may be absent; else why it may not, or "" */
    unsigned flags;
    uint64_t min;
    uint64_t max;  /* 0 of texts and lists: no bound */
    uint64_t each; /* of SCHEMA_TEXTS: bytes of each; 0: no bound */
    uint64_t absent;
    const char *const *words; /* which end with NULL */
    const char *const *meant; /* at the same places: spellings that are refused, with advice */
    const char *(*check)(struct slice text); /* of each text: what is wrong with it, or NULL */
    const char *pattern;                     /* what the API server checks of it */
    const struct schema_object *object;
    const char *help;
};

struct schema_reader;
struct schema_path;

struct schema_object {
    const struct schema_field *fields;
    size_t count;
    size_t size; /* of the struct */
    /* What takes several fields to see; called when all were read, whether they are right or not.
     * NULL: nothing. */
    void (*check)(struct schema_reader *r, const struct schema_path *at, void *out);
    bool open;        /* other fields may be there, and are skipped */
    const char *help; /* of an entry of a list */
};

/* Of a row: the member of the struct that takes the value. */
#define SCHEMA_MEMBER(type, member) .offset = offsetof(type, member)
/* Of an object: its rows, and its struct. */
#define SCHEMA_OBJECT_OF(rows, type)                                                               \
    .fields = (rows), .count = sizeof(rows) / sizeof *(rows), .size = sizeof(type)

/* Where reading is: a chain of names from the object at hand up to the document, kept on the
 * stack. */
struct schema_path {
    const struct schema_path *up;
    const char *key; /* "" of a whole document */
    size_t index;    /* in the list of that name; SIZE_MAX: it is none */
    const cJSON *item;
};

/* The path of a member of the object at `up`, or of an entry of its list. */
#define SCHEMA_AT(up_, key_, item_) ((struct schema_path){(up_), (key_), SIZE_MAX, (item_)})
#define SCHEMA_ENTRY(up_, key_, i_, item_) ((struct schema_path){(up_), (key_), (i_), (item_)})

struct schema_block;

/* What reading allocates: lists, and structs that are pointed to. All zero to begin with. */
struct schema_memory {
    struct schema_block *blocks;
    size_t weight; /* bytes of the heap */
};
/* Zeroed; NULL: no memory. */
void *schema_alloc(struct schema_memory *m, size_t count, size_t size);
void schema_memory_deinit(struct schema_memory *m);

struct schema_reader {
    struct schema_memory *memory;
    /* Called with each error and warning, "spec.limits[0].selector: Required value". NULL: the
     * first error is kept in `first`, reading stops, and warnings are dropped. */
    void (*on_finding)(void *data, bool error, const char *text);
    void *data; /* of the callback, and for the checks of objects */
    struct err first;
    unsigned errors;
    bool null_is_value; /* of the wrong type for most rows; else null counts as absent */
    /* With `text` set, errors begin with the line of the value. */
    struct slice text;
    const cJSON *root;
};

/* Fills `out`, the struct of `o`, which is zeroed, from the object `at->item`. Texts and trees in
 * it belong to the document. Returns the code of the first error so far: 0, -EINVAL, -E2BIG, or
 * -ENOMEM, which is reported as no finding. */
MUST_CHECK int schema_read(struct schema_reader *r, const struct schema_object *o,
                           const struct schema_path *at, void *out);

/* Adds what is in the struct of `o` to an object. Texts that are NULL, or "" and not required, and
 * times of 0 are left out; lists, selectors and trees are not written. False: out of memory, and
 * something is missing. */
bool schema_write_json(const struct schema_object *o, const void *in, cJSON *out);

/* Report what is wrong at a path, or at the member `key` of it; `key` NULL: at the path itself. */
void schema_error(struct schema_reader *r, const struct schema_path *at, const char *key,
                  const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void schema_warn(struct schema_reader *r, const struct schema_path *at, const char *key,
                 const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* As schema_error, with another code than -EINVAL. -ENOMEM is kept without a message. */
void schema_fail(struct schema_reader *r, int code, const struct schema_path *at, const char *key,
                 const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* The error of a function that names the path in its own message. */
void schema_pass_on(struct schema_reader *r, const struct schema_path *at, const struct err *e);
/* Whether reading must stop: no memory, an error with nobody to report further ones to, or
 * SCHEMA_ERRORS_MAX of them. */
bool schema_stopped(const struct schema_reader *r);

/* Writes "spec.limits[0]" and returns it. */
const char *schema_path_text(const struct schema_path *at, char out[SCHEMA_PATH_MAX]);

/* Milliseconds as a duration, "10m", "168h", "1ms"; returns `out`. */
#define SCHEMA_MS_SIZE 32
const char *schema_print_ms(uint64_t ms, char out[SCHEMA_MS_SIZE]);

#endif
