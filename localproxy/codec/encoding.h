/* SPDX-License-Identifier: Apache-2.0 */
/*
 * encoding.h - how the objects of a response are written or wanted, as far as headers tell.
 */
#ifndef LOCALPROXY_CODEC_ENCODING_H
#define LOCALPROXY_CODEC_ENCODING_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

enum encoding {
    ENCODING_JSON,     /* application/json, with any parameters */
    ENCODING_PROTOBUF, /* application/vnd.kubernetes.protobuf, with any parameters */
    ENCODING_OTHER     /* CBOR, YAML, none, ... */
};

/* As what the objects of a response come, which its Content-Type does not tell. */
enum object_form { OBJECT_FORM_WHOLE, OBJECT_FORM_PARTIAL, OBJECT_FORM_TABLE };

/* The form that a request's Accept header asks for, when the answer has this encoding: that of the
 * first of the ranges for it that have the highest quality, as the API server takes them.
 * PartialObjectMetadata(List) is partial. */
enum object_form encoding_form(struct slice accept, enum encoding answer);

/* Appends the ranges of an Accept header that are not CBOR, which cannot be read here. False: there
 * is none, or nothing else, or no room; then the header should stay as it is. */
MUST_CHECK bool encoding_without_cbor(struct slice accept, struct buf *out);

/* Of the value of a Content-Type header, or of one range of an Accept header. */
enum encoding encoding_of(struct slice content_type);

/* What the client prefers of JSON and protobuf, by the value of its Accept header; JSON if it says
 * nothing, ENCODING_OTHER if it takes neither. As kube-apiserver chooses: RFC 9110, section 12.5.1,
 * a type before a wildcard, and then the first. */
enum encoding encoding_accepted(struct slice accept);

/* The same value without its parameters. */
struct slice encoding_media_type(struct slice content_type);

#endif
