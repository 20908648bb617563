/* SPDX-License-Identifier: Apache-2.0 */
#include "enforcement/probe_answer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "base/xalloc.h"
#include "control/status.h"
#include "policy/pod_traffic.h"
#include "json/field.h"

/* The document that a program of that name sent; NULL with `e` set. */
static cJSON *parse(struct slice body, const char *program, struct err *e)
{
    struct err why = ERR_INIT;
    cJSON *root = control_status_parse(body, program, &why);
    if (root == NULL && xrc(why.code) != 0) {
        (void)err_set(e, -EINVAL, "%s", why.msg);
    }
    return root;
}

/* NULL: it does not count. */
static struct control_load *read_load(const cJSON *root)
{
    struct control_load load;
    control_load_read(root, &load);
    if (!load.known) {
        return NULL;
    }
    struct control_load *copy = xmalloc(sizeof *copy);
    *copy = load;
    return copy;
}

static int read_proxy(const cJSON *root, struct probe_result *r, struct err *e)
{
    struct err why = ERR_INIT;
    struct control_proxy_status s;
    struct control_proxy_use use;
    if (control_proxy_status_read(root, &s, &why) != 0) {
        return err_set(e, -EINVAL, "invalid response: %s", why.msg);
    }
    control_proxy_use_read(root, &use);
    utf8_copy_plain(r->version, sizeof r->version, field_text(root, "version"));
    r->unused = use.clients_known && use.requests == 0;
    r->up_ms = use.clients_known ? (int64_t)use.uptime_s * 1000 : 0;
    if (use.bypass_known) { /* else it has just started, and will know in some seconds */
        r->bypassed = use.bypass_connections > 0;
    }
    const char *trouble = control_proxy_source_read(root);
    r->says_why = trouble != NULL && trouble[0] != '\0';
    if (r->says_why) {
        utf8_copy_plain(r->message, sizeof r->message, trouble);
    }
    struct control_rules_lease lease;
    control_rules_lease_read(root, &lease);
    r->lease_s = (unsigned)lease.seconds;
    r->expired = lease.expired;
    r->traffic = pod_traffic_read(root);
    r->load = read_load(root);
    r->reads = s.reads;
    r->enforcing = s.settled;
    r->generation = s.rules.generation;
    r->since_ms = s.rules.since * 1000;
    (void)snprintf(r->checksum, sizeof r->checksum, "%s", s.rules.checksum);
    (void)snprintf(r->shard, sizeof r->shard, "%s%s%s", s.rules.shard_namespace,
                   s.rules.enforcing ? "/" : "", s.rules.shard_name);
    return 0;
}

static bool is_of_pod(const struct control_pod *pod, const char *key, const char *uid)
{
    return strcmp(pod->name, strchr(key, '/') + 1) == 0 && strcmp(pod->uid, uid) == 0;
}

/* `named`: the pod must be named. *names: it is. */
static int read_of_pod(struct slice document, const char *key, const char *uid, bool named,
                       bool *names, struct probe_result *r, struct err *e)
{
    cJSON *root = parse(document, CONTROL_STATUS_LOCALPROXY, e);
    if (root == NULL) {
        return -EINVAL;
    }
    struct control_pod pod = control_pod_read(root);
    *names = pod.name[0] != '\0' || pod.uid[0] != '\0';
    bool right = *names ? is_of_pod(&pod, key, uid) : !named;
    int rc = right ? read_proxy(root, r, e) : err_set(e, -EINVAL, "it is of another pod");
    cJSON_Delete(root);
    return rc;
}

int probe_answer_proxy(struct slice body, const char *key, const char *uid, struct probe_result *r,
                       struct err *e)
{
    bool names = false;
    int rc = read_of_pod(body, key, uid, r->named, &names, r, e);
    r->named = r->named || (rc == 0 && names);
    return rc;
}

int probe_answer_told(struct slice document, const char *key, const char *uid,
                      struct probe_result *r, struct err *e)
{
    bool names;
    int rc = read_of_pod(document, key, uid, true, &names, r, e);
    if (rc == 0 && r->traffic != NULL) {
        pod_traffic_set_rough(r->traffic);
    }
    return rc;
}

int probe_answer_rulesync(struct slice body, char message[PROBE_MESSAGE_SIZE], struct err *e)
{
    cJSON *root = parse(body, CONTROL_STATUS_RULESYNC, e);
    if (root == NULL) {
        return -EINVAL;
    }
    utf8_copy_plain(message, PROBE_MESSAGE_SIZE, control_rulesync_trouble(root));
    cJSON_Delete(root);
    return 0;
}

bool probe_is_other_version(const struct probe_result *r)
{
    return r->version[0] != '\0' && strcmp(r->version, CMESH_VERSION) != 0;
}
