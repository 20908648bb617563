/* SPDX-License-Identifier: Apache-2.0 */
/* The fields of CircuitBreaker.spec and FaultInjection.spec: a row for each. */
#include "traffic/policy_checks.h"

#include "kube/name.h"
#include "traffic/origin_text.h"

#define RULE_NAME_PATTERN "^[^:\"[:cntrl:]]+$"
#define METHOD_PATTERN "^(\\*|[-_A-Z0-9]+)$"
#define TIME_PATTERN "^(([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9])?$"

/* ---- requests to the API server ---- */

/* With these as required, and so many at least; and what is said of those that are left out. */
#define RESOURCE_FIELDS(why, least, absent_help)                                                   \
    {"apiGroups",                                                                                  \
     SCHEMA_TEXTS,                                                                                 \
     SCHEMA_MEMBER(struct traffic_resource_rule, groups),                                          \
     .required = (why),                                                                            \
     .min = (least),                                                                               \
     .max = TRAFFIC_LIST_MAX,                                                                      \
     .flags = SCHEMA_NULLABLE,                                                                     \
     .check = policy_check_group,                                                                  \
     .help = "API groups without versions; \"\" is the core group, \"*\" any." absent_help},       \
        {"resources",                                                                              \
         SCHEMA_TEXTS,                                                                             \
         SCHEMA_MEMBER(struct traffic_resource_rule, resources),                                   \
         .required = (why),                                                                        \
         .min = (least),                                                                           \
         .max = TRAFFIC_LIST_MAX,                                                                  \
         .check = policy_check_resource,                                                           \
         .pattern = "^(\\*|((\\*|[-a-z0-9]+)/)?[-a-z0-9]+)$",                                      \
         .help = "Plural names in lower case, as in URLs; \"*\" is any. pods is also for the "     \
                 "subresources of pods; pods/eviction is for that one, */scale for that of "       \
                 "whatever has it." absent_help},                                                  \
        {"verbs",                                                                                  \
         SCHEMA_TEXTS,                                                                             \
         SCHEMA_MEMBER(struct traffic_resource_rule, verbs),                                       \
         .required = (why),                                                                        \
         .min = (least),                                                                           \
         .max = TRAFFIC_LIST_MAX,                                                                  \
         .check = policy_check_verb,                                                               \
         .words = policy_verbs,                                                                    \
         .help = "get, list, watch, create, update, patch, delete, deletecollection; \"*\" is "    \
                 "any." absent_help},                                                              \
    {                                                                                              \
        "namespaces", SCHEMA_TEXTS, SCHEMA_MEMBER(struct traffic_resource_rule, namespaces),       \
            .required = (why), .min = (least), .max = TRAFFIC_LIST_MAX, .each = NAME_LABEL_MAX,    \
            .flags = SCHEMA_NULLABLE, .check = policy_check_namespace,                             \
            .help = "Namespaces of the objects; \"*\" is any, and objects that have "              \
                    "none." absent_help                                                            \
    }

static const struct schema_field limiting_row_fields[] = {
    RESOURCE_FIELDS("write [\"*\"] for any", 1, "")};
static const struct schema_object limiting_row = {
    SCHEMA_OBJECT_OF(limiting_row_fields, struct traffic_resource_rule),
    .help = "Every combination of what is in these lists."};

static const struct schema_field fault_row_fields[] = {RESOURCE_FIELDS(NULL, 0, " Any if absent.")};
static const struct schema_object fault_row = {
    SCHEMA_OBJECT_OF(fault_row_fields, struct traffic_resource_rule),
    .help = "Every combination of what is in these lists."};

#define EXEMPT                                                                                     \
    "Requests for leases, for the operator's own leader election lock, and that ask who somebody " \
    "is (tokenreviews, subjectaccessreviews), are meant only by rules that name the resource."

/* ---- a breaker's rules ---- */

static const struct schema_field rest_rule_fields[] = {
    {"url", SCHEMA_TEXT, SCHEMA_MEMBER(struct traffic_rest_rule, url), .required = "",
     .max = TRAFFIC_URL_MAX, .check = policy_check_url,
     .pattern = "^[hH][tT][tT][pP][sS]?://(\\*\\.)?[^*/?#@\\s]+([/?][^#\\s]*)?$",
     .help = "As in https://example.com:8443/path; with /* at the end all below it, with a host "
             "*.example.com all hosts below that. In a tunnel (CONNECT) only a rule for a whole "
             "host holds, without path or with the path /*."},
    {"method", SCHEMA_TEXT, SCHEMA_MEMBER(struct traffic_rest_rule, method), .required = "",
     .check = origin_method_check, .pattern = METHOD_PATTERN,
     .help = "HTTP method in upper case; \"*\" is any. A tunnel has the method CONNECT."},
};
static const struct schema_object rest_rule = {
    SCHEMA_OBJECT_OF(rest_rule_fields, struct traffic_rest_rule)};

static const struct schema_field bucket_fields[] = {
    {"burst", SCHEMA_NUMBER, SCHEMA_MEMBER(struct traffic_bucket, burst), .required = "",
     .max = UINT32_MAX, .help = "The most requests at once. 0 refuses every request."},
    {"interval", SCHEMA_DURATION, SCHEMA_MEMBER(struct traffic_bucket, interval_ms), .required = "",
     .min = 1, .max = TRAFFIC_TIME_MAX_MS,
     .help = "A duration as 10s, 1.5s, 100ms or 1h30m: from 1ms to 168h. A part of a millisecond "
             "counts "
             "as one."},
    {"limit", SCHEMA_NUMBER, SCHEMA_MEMBER(struct traffic_bucket, limit), .required = "",
     .max = UINT32_MAX,
     .help = "How many requests in each interval. With 0 there are burst, and no more."},
};
static const struct schema_object bucket = {SCHEMA_OBJECT_OF(bucket_fields, struct traffic_bucket)};

/* The structs of recoverPolicy, and of a fault's delay, abort and match, are those of the rule. */
static const char *const recoveries[] = {"Manual", "SleepingWindow", NULL};
static const struct schema_field recover_fields[] = {
    {"type", SCHEMA_WORD, SCHEMA_MEMBER(struct traffic_limiting, recover), .required = "",
     .words = recoveries,
     .help = "SleepingWindow: after sleepingWindowSize; with triggerPolicy Health it lets probes "
             "through then. Manual: when the annotation "
             "circuitbreaker.ctrlmesh.kusionstack.io/recover of this object, RULE=TOKEN or "
             "*=TOKEN, gets another token than before, whatever that is."},
    {"sleepingWindowSize", SCHEMA_DURATION, SCHEMA_MEMBER(struct traffic_limiting, window_ms),
     .flags = SCHEMA_NULLABLE, .min = 1, .max = TRAFFIC_TIME_MAX_MS,
     .help = "A duration from 1ms to 168h. Required with SleepingWindow."},
};
static const struct schema_object recover = {
    SCHEMA_OBJECT_OF(recover_fields, struct traffic_limiting)};

static const struct schema_field health_fields[] = {
    {"window", SCHEMA_DURATION, SCHEMA_MEMBER(struct traffic_health, window_ms), .required = "",
     .min = TRAFFIC_HEALTH_MIN_MS, .max = TRAFFIC_TIME_MAX_MS,
     .help = "A duration from 10ms to 168h, whose requests are looked at."},
    {"minimumRequests", SCHEMA_NUMBER, SCHEMA_MEMBER(struct traffic_health, minimum_requests),
     .required = "", .min = 1, .max = UINT32_MAX,
     .help = "With fewer requests in the window it does not open."},
    {"errorPercent", SCHEMA_NUMBER, SCHEMA_MEMBER(struct traffic_health, error_percent), .min = 1,
     .max = 100, .help = "Opens when so many of them failed, with status 5xx or no answer."},
    {"slowCallDuration", SCHEMA_DURATION, SCHEMA_MEMBER(struct traffic_health, slow_ms), .min = 1,
     .max = TRAFFIC_TIME_MAX_MS,
     .help = "A request is slow when its answer does not begin within this duration."},
    {"slowCallPercent", SCHEMA_NUMBER, SCHEMA_MEMBER(struct traffic_health, slow_percent), .min = 1,
     .max = 100, .help = "Opens when so many of them were slow."},
    {"halfOpenRequests", SCHEMA_NUMBER, SCHEMA_MEMBER(struct traffic_health, half_open), .min = 1,
     .max = TRAFFIC_HALF_OPEN_MAX, .absent = 1,
     .help = "So many requests are let through as probes when the window of recoverPolicy is "
             "over; it closes when all are well. 1 if it is not set."},
};
static const struct schema_object health = {SCHEMA_OBJECT_OF(health_fields, struct traffic_health),
                                            .check = policy_check_health};

/* In the order of enum traffic_trigger. */
static const char *const triggers[] = {"Normal",      "LimiterOnly", "ForceOpened",
                                       "ForceClosed", "Health",      NULL};
static const struct schema_field limiting_fields[] = {
    {"name", SCHEMA_TEXT, SCHEMA_MEMBER(struct traffic_limiting, name), .required = "",
     .max = NAME_LABEL_MAX, .check = policy_check_rule_name, .pattern = RULE_NAME_PATTERN,
     .help = "Its name, unique in this object."},
    {"resourceRules", SCHEMA_LIST, SCHEMA_MEMBER(struct traffic_limiting, resources),
     .max = TRAFFIC_ROWS_MAX, .object = &limiting_row,
     .help = "The requests to the API server that it is for. " EXEMPT},
    {"restRules", SCHEMA_LIST, SCHEMA_MEMBER(struct traffic_limiting, urls),
     .max = TRAFFIC_LIST_MAX, .object = &rest_rule,
     .help = "The requests to other places than the API server that it is for: those that are sent "
             "to localproxy's proxy, in pods with annotation ctrlmesh.kusionstack.io/egress: "
             "proxy. Of these rules, too, the most specific ones count."},
    {"bucket", SCHEMA_PART, SCHEMA_MEMBER(struct traffic_limiting, bucket), .object = &bucket,
     .help = "How many requests are allowed: as many as there are tokens in a bucket that fills by "
             "limit in each interval, up to burst. It begins full. Each pod has a bucket of its "
             "own: N pods may send N times as much. Required with triggerPolicy Normal, and with "
             "LimiterOnly unless maxInFlight is set."},
    {"maxInFlight", SCHEMA_NUMBER, SCHEMA_MEMBER(struct traffic_limiting, max_in_flight), .min = 1,
     .max = UINT32_MAX,
     .help = "So many requests at a time, of each pod; watches count until they are answered. It "
             "refuses what is too much, and opens nothing."},
    {"triggerPolicy", SCHEMA_WORD, SCHEMA_MEMBER(struct traffic_limiting, trigger), .required = "",
     .words = triggers, .absent = TRAFFIC_TRIGGERS,
     .help = "Normal: a request over the limit opens the breaker, and while it is open all "
             "requests are refused; recoverPolicy says for how long. LimiterOnly: refuses what is "
             "over the limit and never opens. ForceOpened: refuses all. ForceClosed: lets all "
             "pass. Health: opens when requests fail or are slow, see healthPolicy. What is "
             "refused gets status 429."},
    {"recoverPolicy", SCHEMA_PART, .object = &recover,
     .help = "When an open breaker closes, with triggerPolicy Normal and Health. Manual if it is "
             "not set."},
    {"healthPolicy", SCHEMA_PART, SCHEMA_MEMBER(struct traffic_limiting, health), .object = &health,
     .help = "With triggerPolicy Health: when the API server does so badly that the breaker opens, "
             "as each pod sees it. One of errorPercent, and slowCallDuration with slowCallPercent, "
             "is required."},
    {"properties", SCHEMA_TEXT_MAP, SCHEMA_MEMBER(struct traffic_limiting, properties),
     .help = "Not used: texts by name."},
};
static const struct schema_object limiting = {
    SCHEMA_OBJECT_OF(limiting_fields, struct traffic_limiting), .check = policy_check_limiting};

static const char *const types[] = {"Whitelist", "Blacklist", NULL};
static const char *const types_meant[] = {"White", "Black", NULL};
static const char *const contents[] = {"Normal", "Regexp", NULL};
static const char *const contents_meant[] = {NULL, "Regex", NULL};
static const struct schema_field intercept_fields[] = {
    {"name", SCHEMA_TEXT, SCHEMA_MEMBER(struct traffic_intercept, name), .required = "",
     .max = NAME_LABEL_MAX, .check = policy_check_rule_name, .pattern = RULE_NAME_PATTERN,
     .help = "Its name, unique in this list."},
    {"interceptType", SCHEMA_WORD, SCHEMA_MEMBER(struct traffic_intercept, type), .required = "",
     .words = types, .meant = types_meant, .absent = TRAFFIC_INTERCEPT_TYPES,
     .help = "Whitelist: only what such rules name is allowed. Blacklist: what it names is "
             "refused."},
    {"contentType", SCHEMA_WORD, SCHEMA_MEMBER(struct traffic_intercept, content), .required = "",
     .words = contents, .meant = contents_meant, .absent = TRAFFIC_CONTENT_TYPES,
     .help = "What contents are, hosts or regular expressions."},
    {"contents", SCHEMA_TEXTS, SCHEMA_MEMBER(struct traffic_intercept, contents), .required = "",
     .min = 1, .max = TRAFFIC_LIST_MAX, .each = TRAFFIC_URL_MAX, .flags = SCHEMA_DISTINCT,
     .help = "Hosts as requests name them, example.com or example.com:8443; or regular "
             "expressions, which match somewhere in one unless they begin with ^ and end with $. "
             "All that are protected otherwise (127.0.0.1, 169.254.169.254) are open where a "
             "Whitelist rule names them."},
    {"methods", SCHEMA_TEXTS, SCHEMA_MEMBER(struct traffic_intercept, methods), .required = "",
     .min = 1, .max = TRAFFIC_LIST_MAX, .flags = SCHEMA_DISTINCT, .check = origin_method_check,
     .pattern = METHOD_PATTERN,
     .help = "HTTP methods in upper case; \"*\" is any. A tunnel (CONNECT) is allowed by \"*\" and "
             "CONNECT only, and refused by a Blacklist rule whatever its methods are."},
};
static const struct schema_object intercept = {
    SCHEMA_OBJECT_OF(intercept_fields, struct traffic_intercept), .check = policy_check_intercept};

#define SELECTOR(flag)                                                                             \
    {                                                                                              \
        "selector", SCHEMA_SELECTOR, SCHEMA_MEMBER(struct traffic_spec, selector),                 \
            .max = TRAFFIC_REQUIREMENTS_MAX, .flags = (flag),                                      \
            .help = "The pods that it is for, in the namespace of this object: those of them "     \
                    "that have the proxy. {} is all of the namespace; without a selector it is "   \
                    "for none."                                                                    \
    }

static const struct schema_field breaker_fields[] = {
    SELECTOR(SCHEMA_WANTED),
    {"rateLimitings", SCHEMA_LIST, SCHEMA_MEMBER(struct traffic_spec, limitings),
     .max = TRAFFIC_ROWS_MAX, .flags = SCHEMA_KEYED, .object = &limiting,
     .help = "Limits on requests. Of those for a request the most specific ones count: the "
             "request's namespace, group, resource and verb are looked for by name, then with one "
             "of these being \"*\", then with two, and so on. All that are equally specific must "
             "let it pass."},
    {"trafficInterceptRules", SCHEMA_LIST, SCHEMA_MEMBER(struct traffic_spec, intercepts),
     .max = TRAFFIC_INTERCEPTS_MAX, .flags = SCHEMA_KEYED, .object = &intercept,
     .help = "Which places other than the API server may be asked, of requests that are sent to "
             "localproxy's proxy, in pods with annotation ctrlmesh.kusionstack.io/egress: proxy. "
             "This is no firewall: what is not sent there is not seen. What one Blacklist rule "
             "names is refused; else what one Whitelist rule names is allowed; else it is refused "
             "if there is a Whitelist rule, in any CircuitBreaker that selects the pod."},
};
const struct schema_object circuit_breaker_spec = {
    SCHEMA_OBJECT_OF(breaker_fields, struct traffic_spec), .check = policy_check_spec,
    .help = "Which requests of which pods are limited, and how."};

/* ---- a fault injection's rules ---- */

#define PERCENT_HELP                                                                               \
    "Of how many requests in a hundred: an integer, or a text with a number, such as \"0.5\". If " \
    "it is 0 or not set, of none."

static const struct schema_field delay_fields[] = {
    {"fixedDelay", SCHEMA_DURATION, SCHEMA_MEMBER(struct traffic_fault, delay_ms), .required = "",
     .min = 1, .max = TRAFFIC_DELAY_MAX_MS, .help = "A duration as 3s or 100ms, from 1ms to 10m."},
    {"percent", SCHEMA_PERCENT, SCHEMA_MEMBER(struct traffic_fault, delay_ppm),
     .help = PERCENT_HELP},
};
static const struct schema_object delay = {SCHEMA_OBJECT_OF(delay_fields, struct traffic_fault),
                                           .check = policy_check_delay};

static const struct schema_field abort_fields[] = {
    {"httpStatus", SCHEMA_NUMBER, SCHEMA_MEMBER(struct traffic_fault, abort_status), .required = "",
     .max = 599, .help = "Status of the answer, 400 to 599. 0 and 200 switch the abort off."},
    {"percent", SCHEMA_PERCENT, SCHEMA_MEMBER(struct traffic_fault, abort_ppm),
     .help = PERCENT_HELP},
};
static const struct schema_object abort_object = {
    SCHEMA_OBJECT_OF(abort_fields, struct traffic_fault), .check = policy_check_abort};

#define TEXT_MATCH_FIELDS(check_)                                                                  \
    {"exact",                                                                                      \
     SCHEMA_TEXT,                                                                                  \
     SCHEMA_MEMBER(struct traffic_text_match, exact),                                              \
     .max = TRAFFIC_URL_MAX,                                                                       \
     .check = (check_),                                                                            \
     .help = "The whole text."},                                                                   \
    {                                                                                              \
        "regex", SCHEMA_TEXT, SCHEMA_MEMBER(struct traffic_text_match, regex),                     \
            .max = TRAFFIC_URL_MAX,                                                                \
            .help = "A regular expression, which matches anywhere in it; not used beside exact."   \
    }

static const struct schema_field host_match_fields[] = {TEXT_MATCH_FIELDS(policy_check_host)};
static const struct schema_object host_match = {
    SCHEMA_OBJECT_OF(host_match_fields, struct traffic_text_match),
    .check = policy_check_host_match};
static const struct schema_field path_match_fields[] = {TEXT_MATCH_FIELDS(policy_check_path)};
static const struct schema_object path_match = {
    SCHEMA_OBJECT_OF(path_match_fields, struct traffic_text_match),
    .check = policy_check_path_match};

static const struct schema_field header_fields[] = {
    {"name", SCHEMA_TEXT, SCHEMA_MEMBER(struct traffic_header, name), .required = "",
     .max = TRAFFIC_URL_MAX, .check = policy_check_header_name, .help = "The header's name."},
    {"value", SCHEMA_TEXT, SCHEMA_MEMBER(struct traffic_header, value), .flags = SCHEMA_NULLABLE,
     .max = TRAFFIC_URL_MAX, .check = policy_check_header_value,
     .help = "Its whole value; any if absent."},
};
static const struct schema_object header = {SCHEMA_OBJECT_OF(header_fields, struct traffic_header)};

static const struct schema_field http_fields[] = {
    {"host", SCHEMA_PART, SCHEMA_MEMBER(struct traffic_http, host), .object = &host_match,
     .help = "The host, as example.com or example.com:8443."},
    {"path", SCHEMA_PART, SCHEMA_MEMBER(struct traffic_http, path), .object = &path_match,
     .help = "The path."},
    {"method", SCHEMA_TEXT, SCHEMA_MEMBER(struct traffic_http, method),
     .check = origin_method_check, .pattern = "^(\\*|[-_A-Z0-9]*)$",
     .help = "HTTP method in upper case; \"*\" is any."},
    {"headers", SCHEMA_LIST, SCHEMA_MEMBER(struct traffic_http, headers), .max = TRAFFIC_LIST_MAX,
     .object = &header, .help = "Headers that must be there."},
};
static const struct schema_object http = {SCHEMA_OBJECT_OF(http_fields, struct traffic_http),
                                          .check = policy_check_http};

static const struct schema_field match_fields[] = {
    {"resources", SCHEMA_LIST, SCHEMA_MEMBER(struct traffic_fault, resources),
     .max = TRAFFIC_ROWS_MAX, .object = &fault_row, .help = "Requests to the API server. " EXEMPT},
    {"httpMatch", SCHEMA_LIST, SCHEMA_MEMBER(struct traffic_fault, http), .max = TRAFFIC_LIST_MAX,
     .object = &http,
     .help = "Requests to other places than the API server: those that are sent to localproxy's "
             "proxy, in pods with annotation ctrlmesh.kusionstack.io/egress: proxy. All that is "
             "named must match; in a tunnel (CONNECT) what names a path, headers or another method "
             "never does."},
};
static const struct schema_object match = {SCHEMA_OBJECT_OF(match_fields, struct traffic_fault),
                                           .check = policy_check_match};

static const struct schema_field time_fields[] = {
    {"startTime", SCHEMA_TEXT, SCHEMA_MEMBER(struct traffic_time, start), .flags = SCHEMA_NULLABLE,
     .check = policy_check_time, .pattern = TIME_PATTERN,
     .help = "From this time of the day, as 15:04:05. Needs endTime. One after endTime runs over "
             "midnight, and days and months are those on which it starts."},
    {"endTime", SCHEMA_TEXT, SCHEMA_MEMBER(struct traffic_time, end), .flags = SCHEMA_NULLABLE,
     .check = policy_check_time, .pattern = TIME_PATTERN,
     .help = "To this time of the day, and including it."},
    {"daysOfWeek", SCHEMA_BITS, SCHEMA_MEMBER(struct traffic_time, schedule.days_of_week), .max = 6,
     .help = "0 is Sunday."},
    {"daysOfMonth", SCHEMA_BITS, SCHEMA_MEMBER(struct traffic_time, schedule.days_of_month),
     .min = 1, .max = 31, .help = "1 to 31."},
    {"months", SCHEMA_BITS, SCHEMA_MEMBER(struct traffic_time, schedule.months), .min = 1,
     .max = 12, .help = "1 to 12."},
    {"timeZone", SCHEMA_TEXT, SCHEMA_MEMBER(struct traffic_time, zone), .flags = SCHEMA_NULLABLE,
     .max = TRAFFIC_ZONE_NAME_MAX, .pattern = "^([A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*)?$",
     .help = "Whose clocks: a name of the IANA database, such as Europe/Berlin. UTC if it is not "
             "set."},
};
static const struct schema_object effective_time = {
    SCHEMA_OBJECT_OF(time_fields, struct traffic_time), .check = policy_check_effective};

static const struct schema_field fault_fields[] = {
    {"name", SCHEMA_TEXT, SCHEMA_MEMBER(struct traffic_fault, name), .max = NAME_LABEL_MAX,
     .check = policy_check_rule_name, .pattern = "^[^:\"[:cntrl:]]*$",
     .help = "Its name, unique in this object."},
    {"delay", SCHEMA_PART, .object = &delay,
     .help = "Lets the request wait. This, or abort, is required."},
    {"abort", SCHEMA_PART, .object = &abort_object,
     .help = "Answers the request in place of the API server."},
    {"match", SCHEMA_PART, .object = &match,
     .required = "must say in resources or httpMatch which requests are meant",
     .help = "Which requests it is for. One of both lists must have an entry."},
    {"effectiveTime", SCHEMA_OBJECT, SCHEMA_MEMBER(struct traffic_fault, time),
     .object = &effective_time,
     .help = "When it is in effect; always if it is not set. Times, days and months must all be "
             "met; an absent one is any."},
};
static const struct schema_object fault = {SCHEMA_OBJECT_OF(fault_fields, struct traffic_fault),
                                           .check = policy_check_fault};

static const struct schema_field fault_injection_fields[] = {
    SELECTOR(0),
    {"disabled", SCHEMA_BOOL, SCHEMA_MEMBER(struct traffic_spec, disabled),
     .help = "Takes its rules out of all pods, as label "
             "faultinjection.ctrlmesh.kusionstack.io/disable does."},
    {"httpFault", SCHEMA_LIST, SCHEMA_MEMBER(struct traffic_spec, faults), .max = TRAFFIC_ROWS_MAX,
     .flags = SCHEMA_KEYED, .object = &fault,
     .help = "Faults. A request meets all that match it: their delays add up, to 10 minutes at "
             "most, and then the first abort ends it."},
};
const struct schema_object fault_injection_spec = {
    SCHEMA_OBJECT_OF(fault_injection_fields, struct traffic_spec), .check = policy_check_spec,
    .help = "Which requests of which pods meet which faults, and when."};
