/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules.h - what one shard may see: the rules document and its compiled form.
 *
 * Glossary: a *limit* is a set of resources (apiGroups x resources, `*` is any) with a label
 * selector; limits that match one resource are ANDed. A *generation* grows with each change. The
 * *checksum* is SHA-256 of the canonical spec. README.md beside this file documents the format.
 *
 * Rules are an immutable, reference-counted snapshot (single-threaded): everything is compiled when
 * they are parsed, so that a look-up allocates nothing and cannot fail.
 */
#ifndef CORE_RULES_RULES_H
#define CORE_RULES_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/byte_budget.h"
#include "base/err.h"
#include "base/slice.h"
#include "document/document.h"
#include "kube/selector.h"

#define RULES_API_VERSION "cmesh/v1"
#define RULES_KIND "ShardRules"

/* Versions of the document. Each reader reads all up to its own; rules mean the same, and have the
 * same checksum, in all that can hold them. */
enum rules_version {
    RULES_V1,
    RULES_V2, /* selectors stand in a list of their own, once, however many limits have them */
    RULES_VERSIONS,
};
#define RULES_NEWEST RULES_V2

/* "cmesh/v1" and so on. */
const char *rules_version_text(enum rules_version v);
/* The newest one that this program and somebody who says `text` both read; RULES_V1 for NULL. */
enum rules_version rules_version_common(const char *text);

/* Bytes of a document, and of one in a later version as it is in the oldest. */
#define RULES_TEXT_MAX (8 * 1024 * 1024)
#define RULES_VALUES_MAX 400000      /* JSON values of a document, */
#define RULES_VALUES_BESIDE_MAX 1000 /* and of these outside of its spec */
#define RULES_LIMITS_MAX 10000
#define RULES_LIST_MAX 1000          /* entries of apiGroups or resources in one limit */
#define RULES_PATTERNS_MAX 16384     /* pairs of group and resource that the limits name, */
#define RULES_PAIRS_MAX 131072       /* and how often they name them in all */
#define RULES_REQUIREMENTS_MAX 65536 /* of selectors, each different selector once */

/* Bytes of an encoded selector: kube-apiserver takes request heads of 1 MiB. */
#define RULES_ESCAPED_MAX (1000 * 1000)

#define RULES_CHECKSUM_LEN DOCUMENT_CHECKSUM_LEN

struct rules;

/* All limits on one resource, ANDed. Lives as long as the snapshot. Resources whose limits have the
 * same selectors share one entry. */
struct rules_entry {
    const struct selector *compiled; /* to evaluate, and to print */
    size_t length;                   /* of its canonical text */
    struct slice escaped;            /* that text, encoded for a query (query_encode) */
    uint64_t id; /* of the selector, equal in all snapshots: first 8 bytes of SHA-256; never 0 */
};

/* The keys of the control labels. */
struct rules_labels {
    const char *namespace;  /* ctrlmesh.kusionstack.io/namespace */
    const char *shard_hash; /* ctrlmesh.kusionstack.io/sharding-hash */
    const char *control;    /* ctrlmesh.kusionstack.io/control */
};

/* Parses and validates a whole document. The caller holds one reference. NULL on error; the message
 * has the line and the JSON path: -EINVAL, -E2BIG (over the bounds above) or -ENOMEM. */
MUST_CHECK struct rules *rules_parse(const char *text, size_t len, struct err *e);
/* The same without the texts for queries, which may be by far the largest part: no entry has
 * `escaped`. For whoever sends none. */
MUST_CHECK struct rules *rules_parse_plain(const char *text, size_t len, struct err *e);

/* These without the texts for queries, where they are long: the caller holds a reference, perhaps
 * one of `r` itself. Without memory, to `r`. */
MUST_CHECK struct rules *rules_plain(struct rules *r);

/* Bytes of memory that they take, about: some milliseconds for large ones. */
size_t rules_weight(const struct rules *r);
/* What they take counts there, once for all that share it, until the last of these is freed; the
 * budget outlives them. It counts nowhere else any more. Small ones count nowhere
 * (base/byte_budget.h). */
void rules_count_in(struct rules *r, struct byte_budget *budget);
/* The same, unless they count somewhere already. */
void rules_count_once(struct rules *r, struct byte_budget *budget);
/* What counts; 0: nothing, for it is little, or they are not counted. */
size_t rules_counted(const struct rules *r);

struct rules *rules_ref(struct rules *r);
/* The last one frees; NULL is fine. */
void rules_unref(struct rules *r);

/* The same but for the generation, and from which one on generations are void (0: none is; else it
 * is larger than `generation`); shares what it has with `r`. The caller holds one reference. NULL
 * without memory. */
MUST_CHECK struct rules *rules_with_generation(struct rules *r, uint64_t generation,
                                               uint64_t voids);

/* Whether they share what they have. */
bool rules_share(const struct rules *a, const struct rules *b);

uint64_t rules_generation(const struct rules *r);
/* Documents with larger ones are refused. */
#define RULES_GENERATION_MAX DOCUMENT_GENERATION_MAX
/* Rules of this generation and of larger ones are void: these take their place all the same. 0:
 * there are none. So whoever writes rules of the largest generation there is does not have the last
 * word. */
uint64_t rules_voids(const struct rules *r);
/* Whether rules of `generation` are newer, so that these must not take their place. */
bool rules_older_than(const struct rules *r, uint64_t generation);
/* "sha256:<hex>", of the canonical spec, whether the document named it or not. */
const char *rules_checksum(const struct rules *r);
const char *rules_shard_namespace(const struct rules *r);
const char *rules_shard_name(const struct rules *r);
/* The name of the lock object that is made the shard's own; NULL: none. */
const char *rules_leader_election(const struct rules *r);
/* The namespace of that lock; NULL: the pod's own. */
const char *rules_leader_election_namespace(const struct rules *r);
const struct rules_labels *rules_labels(const struct rules *r);
size_t rules_limit_count(const struct rules *r);

/* What limits the resource ("" is the core group); NULL: nothing does. */
const struct rules_entry *rules_match(const struct rules *r, struct slice group,
                                      struct slice resource);

/* The pairs of group and resource that limits name, with `*` as it is written, and (g, r) where
 * some are on (g, *) and some on (*, r): in no order. All else has the limits of a wider pair, or
 * none.
 */
size_t rules_pattern_count(const struct rules *r);
void rules_pattern(const struct rules *r, size_t i, struct slice *group, struct slice *resource);
/* Whether that is one of these pairs. */
bool rules_has_pattern(const struct rules *r, struct slice group, struct slice resource);

/* Appends the document in canonical form, with its checksum: in the oldest version, which can hold
 * all rules; or in that one. 0, -ENOBUFS or -ENOMEM. */
MUST_CHECK int rules_to_json(const struct rules *r, struct buf *out);
MUST_CHECK int rules_to_version(const struct rules *r, enum rules_version version, struct buf *out);
/* In which version the document was that was parsed. */
enum rules_version rules_version(const struct rules *r);

#endif
