/* SPDX-License-Identifier: Apache-2.0 */
/*
 * encoding.h - how the objects of a response are written, as far as its Content-Type tells.
 */
#ifndef LOCALPROXY_CODEC_ENCODING_H
#define LOCALPROXY_CODEC_ENCODING_H

#include "base/slice.h"

enum encoding {
    ENCODING_JSON,     /* application/json, with any parameters */
    ENCODING_PROTOBUF, /* application/vnd.kubernetes.protobuf, with any parameters */
    ENCODING_OTHER     /* CBOR, YAML, none, ... */
};

/* Of the value of a Content-Type header, or of one range of an Accept header. */
enum encoding encoding_of(struct slice content_type);

/* The same value without its parameters. */
struct slice encoding_media_type(struct slice content_type);

#endif
