/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic/traffic_request.h"

static bool is_lease(const struct request_info *ri)
{
    return slice_eq(ri->resource, SLICE("leases")) &&
           slice_eq(ri->group, SLICE("coordination.k8s.io"));
}

/* TokenReviews, SubjectAccessReviews and the like. */
static bool asks_who(const struct request_info *ri)
{
    return slice_eq(ri->group, SLICE("authentication.k8s.io")) ||
           slice_eq(ri->group, SLICE("authorization.k8s.io"));
}

/* A session is opened by GET and by POST: a rule for one of both verbs is for either. */
static struct slice other_verb(const struct request_info *ri)
{
    if (!request_info_opens_session(ri)) {
        return SLICE("");
    }
    return ri->verb == VERB_GET ? SLICE("create") : SLICE("get");
}

void traffic_request_of(const struct request_info *ri, bool is_lock, struct traffic_request *out)
{
    *out = (struct traffic_request){
        .namespace = ri->namespace,
        .group = ri->group,
        .resource = ri->resource,
        .subresource = ri->subresource,
        .verb = ri->verb_name,
        .or_verb = other_verb(ri),
        .named_only = is_lock || is_lease(ri) || asks_who(ri),
    };
}
