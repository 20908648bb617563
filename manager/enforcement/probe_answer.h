/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe_answer.h - what the sidecars' GET /status says.
 *
 * Whoever has the pod's address answers: everything is checked, texts are bounded and hold no
 * control characters.
 */
#ifndef MANAGER_ENFORCEMENT_PROBE_ANSWER_H
#define MANAGER_ENFORCEMENT_PROBE_ANSWER_H

#include "base/err.h"
#include "base/slice.h"
#include "enforcement/prober.h"

/* localproxy's in the pod `key`, "namespace/name", with that uid: sets what it says of `r`,
 * since_ms as the pod has it; `message` if says_why; `bypassed` if it knows that: what was known
 * before it was started again stands until then; and `traffic` and `load` (free()), which are the
 * caller's, whatever stood there. 0, or with `r` as it was -EINVAL, also when
 * the answer names another pod. Releases before 0.2 name none: that is taken, unless r->named. */
MUST_CHECK int probe_answer_proxy(struct slice body, const char *key, const char *uid,
                                  struct probe_result *r, struct err *e);

/* The same of what the pod tells by its Lease, which has to name it. */
MUST_CHECK int probe_answer_told(struct slice document, const char *key, const char *uid,
                                 struct probe_result *r, struct err *e);

/* rulesync's: sets `message` to why it does not take or hand over what is published; "" if it says
 * nothing of the kind. 0, or with `message` as it was -EINVAL. */
MUST_CHECK int probe_answer_rulesync(struct slice body, char message[PROBE_MESSAGE_SIZE],
                                     struct err *e);

/* Whether it is known to be of another version of cmesh than this program. */
bool probe_is_other_version(const struct probe_result *r);

#endif
