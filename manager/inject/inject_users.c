/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/inject_users.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "inject/inject_names.h"
#include "object/names.h"
#include "json/field.h"

/* Who may be the sidecars' user, by the names of containers. */
struct users {
    double ours;     /* -1: not known */
    const char *why; /* why processes see each other; NULL: they do not */
    struct inject_names same;
    struct inject_names unknown;
    struct inject_names others;
};

/* -1: not given. */
static double user_of(const cJSON *object)
{
    const cJSON *user = field_get(field_get(object, "securityContext"), "runAsUser");
    return cJSON_IsNumber(user) ? user->valuedouble : -1;
}

static bool equal(double a, double b)
{
    return !(a < b) && !(a > b);
}

static void add_container(struct users *u, const cJSON *container, double of_pod)
{
    double user = user_of(container);
    user = user < 0 ? of_pod : user;
    struct inject_names *names = &u->others;
    if (user < 0 || u->ours < 0) {
        names = &u->unknown;
    } else if (equal(user, u->ours)) {
        names = &u->same;
    }
    inject_names_add(names, field_text(container, "name"));
}

/* Init containers that end are gone before the sidecars begin. */
static void add_all(struct users *u, const cJSON *spec)
{
    const cJSON *container;
    double of_pod = user_of(spec);
    cJSON_ArrayForEach(container, field_get(spec, "containers"))
    {
        add_container(u, container, of_pod);
    }
    cJSON_ArrayForEach(container, field_get(spec, "initContainers"))
    {
        if (strcmp(field_text(container, "restartPolicy"), "Always") == 0) {
            add_container(u, container, of_pod);
        }
    }
}

static const char *why_shared(const cJSON *spec)
{
    if (cJSON_IsTrue(field_get(spec, "hostPID"))) {
        return "hostPID";
    }
    return cJSON_IsTrue(field_get(spec, "shareProcessNamespace")) ? "shareProcessNamespace" : NULL;
}

static int refuse(const struct users *u, struct err *e)
{
    return err_set(e, -EINVAL,
                   "spec.%s: Invalid value: true: the containers %s run as user %.0f, as the "
                   "sidecars do, and could take these over: remove it, or give them another "
                   "securityContext.runAsUser",
                   u->why, u->same.text, u->ours);
}

static int refuse_bypass(const struct users *u, struct err *e)
{
    return err_set(
        e, -EINVAL,
        "spec.containers[%s].securityContext.runAsUser: Invalid value: %.0f: is the user "
        "of the sidecars, whose connections " SIDECAR_NAT " does not redirect",
        u->same.text, u->ours);
}

static void warn_of_shared(const struct users *u, struct warnings *warnings)
{
    if (u->unknown.len > 0) {
        warnings_add(warnings,
                     "spec.%s: whoever has the user of the sidecars can take them over, and "
                     "nothing says which one the containers %s have: set "
                     "securityContext.runAsUser, or better remove %s",
                     u->why, u->unknown.text, u->why);
    }
    if (u->others.len > 0) {
        warnings_add(warnings,
                     "spec.%s: only their users keep the containers %s from taking over the "
                     "sidecars: root can, unless it has no capabilities",
                     u->why, u->others.text);
    }
}

int inject_users_check(const struct inject_settings *s, const struct inject_options *o,
                       const cJSON *spec, struct warnings *warnings, struct err *e)
{
    struct users u = {.ours = s->user != 0 ? (double)s->user : user_of(spec),
                      .why = why_shared(spec)};
    add_all(&u, spec);
    if (u.why != NULL && u.same.len > 0) {
        return refuse(&u, e);
    }
    if (o->nat && u.same.len > 0) {
        return refuse_bypass(&u, e);
    }
    if (u.why != NULL) {
        warn_of_shared(&u, warnings);
    } else if (u.same.len > 0 && s->user != 0) {
        warnings_add(warnings,
                     "spec.containers[%s].securityContext.runAsUser: %.0f is the user of the "
                     "sidecars, which should have it for themselves",
                     u.same.text, u.ours);
    }
    return 0;
}
