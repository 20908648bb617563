/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch_frame.h - what a watch event says, read without parsing its object.
 *
 * An event is the bytes of one frame: in JSON the line, with or without its newline; in protobuf
 * the bare WatchEvent that follows the length of 4 bytes. It is read from the front, no further
 * than needed, and nothing is allocated. Bytes that are no event give WATCH_FRAME_UNKNOWN and
 * zeros, and are never read past their end.
 *
 * Sources: k8s.io/apimachinery/pkg/apis/meta/v1 (WatchEvent, ObjectMeta, Status, Table) and
 * pkg/runtime/generated.proto. Keys and types are compared as they are written: kube-apiserver
 * escapes no letter.
 */
#ifndef LOCALPROXY_CODEC_WATCH_FRAME_H
#define LOCALPROXY_CODEC_WATCH_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "codec/encoding.h"

enum watch_frame_type {
    WATCH_FRAME_UNKNOWN,
    WATCH_FRAME_ADDED,
    WATCH_FRAME_MODIFIED,
    WATCH_FRAME_DELETED,
    WATCH_FRAME_BOOKMARK,
    WATCH_FRAME_ERROR
};

struct watch_frame {
    enum watch_frame_type type;
    /* metadata.resourceVersion of the object; of a Table without one, that of its first row's. 0:
     * none, or not a decimal number of 64 bits. Not looked for in an ERROR. */
    uint64_t resource_version;
    bool initial_events_end; /* BOOKMARK: the annotation k8s.io/initial-events-end is "true" */
    unsigned code;           /* ERROR: the code of the Status; 0: none */
    /* Of watch_frame_scan_namespace, not in an ERROR: metadata.namespace of the object, of a Table
     * that of its first row's. A view into the event, escapes as they are written; empty: none;
     * ptr NULL: not looked for. */
    struct slice namespace;
};

void watch_frame_scan(enum encoding encoding, struct slice event, struct watch_frame *out);
/* Looks for the namespace, too, as far as it stands before the version: servers write it there. */
void watch_frame_scan_namespace(enum encoding encoding, struct slice event,
                                struct watch_frame *out);

/* "ADDED", ...; "" for WATCH_FRAME_UNKNOWN. */
const char *watch_frame_type_name(enum watch_frame_type type);

#endif
