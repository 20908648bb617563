/* SPDX-License-Identifier: Apache-2.0 */
/*
 * encoding.h - how the objects of a response are written, as far as its Content-Type tells.
 *
 * kube-apiserver 1.20 says the encoding and nothing of the form; a form that was asked for (the
 * client's Accept: `application/json;as=Table;v=v1;g=meta.k8s.io`) may be read the same way.
 */
#ifndef LOCALPROXY_CODEC_ENCODING_H
#define LOCALPROXY_CODEC_ENCODING_H

#include "base/slice.h"

enum encoding {
    ENCODING_JSON,     /* application/json, with any parameters */
    ENCODING_PROTOBUF, /* application/vnd.kubernetes.protobuf, with any parameters */
    ENCODING_OTHER     /* CBOR, YAML, none, ... */
};

/* The parameter `as` (k8s.io/apiserver/pkg/endpoints/handlers/negotiation). */
enum object_form {
    FORM_FULL,
    FORM_TABLE,  /* as=Table */
    FORM_PARTIAL /* as=PartialObjectMetadata or PartialObjectMetadataList */
};

/* Of the value of a Content-Type header, or of one range of an Accept header. */
enum encoding encoding_of(struct slice content_type);
enum object_form encoding_form(struct slice content_type);

#endif
