/* SPDX-License-Identifier: Apache-2.0 */
#include "route/service_ports.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/buf.h"
#include "json/json.h"

#define BLUE "wh-00000001"
#define GREEN "wh-00000002"
#define NAMED "{'name':'webhook','port':443,'targetPort':9443}"
#define OURS(name, number)                                                                         \
    "{'name':'" name "','port':" number ",'protocol':'TCP','targetPort':'" name "'}"
#define OWNS(numbers)                                                                              \
    "[{'manager':'kubectl','operation':'Update','fieldsV1':{'f:spec':{'f:ports':{}}}},"            \
    "{'manager':'cmesh-routes','operation':'Apply','fieldsV1':{'f:spec':{'f:ports':{" numbers      \
    "}}}}]"
#define KEY(number) "'k:{\\'port\\':" number ",\\'protocol\\':\\'TCP\\'}':{'.':{}}"

/* ' for ". */
static cJSON *parse(const char *text)
{
    struct err e = ERR_INIT;
    char *copy = strdup(text);
    for (char *c = copy; *c != '\0'; c++) {
        *c = *c == '\'' ? '"' : *c;
    }
    cJSON *json = json_parse(copy, strlen(copy), &e);
    if (json == NULL) {
        fail_msg("%s: %s", e.msg, copy);
    }
    free(copy);
    return json;
}

/* `managed` "": nothing is said of owners. */
static cJSON *service(const char *ports, const char *managed)
{
    char text[8192];
    (void)snprintf(text, sizeof text,
                   "{'metadata':{'namespace':'n','name':'hook','uid':'u'%s%s},"
                   "'spec':{'ports':[%s]}}",
                   managed[0] == '\0' ? "" : ",'managedFields':", managed, ports);
    return parse(text);
}

static struct service_port port(const char *name, uint16_t number)
{
    struct service_port p = {.number = number};
    (void)snprintf(p.name, sizeof p.name, "%s", name);
    return p;
}

static void expect_apply(cJSON *apply, const char *ports)
{
    char text[4096];
    (void)snprintf(text, sizeof text,
                   "{'apiVersion':'v1','kind':'Service',"
                   "'metadata':{'namespace':'n','name':'hook','uid':'u'}%s%s%s}",
                   ports == NULL ? "" : ",'spec':{'ports':[", ports == NULL ? "" : ports,
                   ports == NULL ? "" : "]}");
    cJSON *wanted = parse(text);
    char *got = cJSON_PrintUnformatted(apply);
    if (!cJSON_Compare(apply, wanted, true)) {
        fail_msg("%s", got);
    }
    free(got);
    cJSON_Delete(wanted);
    cJSON_Delete(apply);
}

static void numbers_are_given_from_the_first_free_one_on(void **state)
{
    (void)state;
    cJSON *s = service(NAMED ",{'name':'other','port':20444}", "");
    struct service_port ports[] = {port(BLUE, 0), port(GREEN, 0)};
    struct service_ports plan;
    service_ports_plan(s, ports, 2, &plan);
    assert_int_equal(plan.fault, SERVICE_PORTS_FINE);
    assert_false(plan.right);
    assert_int_equal(ports[0].number, 20443);
    assert_int_equal(ports[1].number, 20445);
    assert_false(service_ports_has(s, &ports[0]));
    expect_apply(plan.apply, OURS(BLUE, "20443") "," OURS(GREEN, "20445"));
    cJSON_Delete(s);
}

static void numbers_are_kept(void **state)
{
    (void)state;
    /* By the Service; and one that was made anew gets those to which entries lead. */
    cJSON *s = service(NAMED "," OURS(GREEN, "20449"), OWNS(KEY("20449")));
    struct service_port ports[] = {port(BLUE, 20447), port(GREEN, 20443)};
    struct service_ports plan;
    service_ports_plan(s, ports, 2, &plan);
    assert_int_equal(ports[0].number, 20447);
    assert_int_equal(ports[1].number, 20449);
    assert_true(service_ports_has(s, &ports[1]));
    expect_apply(plan.apply, OURS(BLUE, "20447") "," OURS(GREEN, "20449"));
    cJSON_Delete(s);
    /* Unless somebody else has it by now, or two shards had it in different Services. */
    s = service("{'name':'a','port':20447}", "");
    struct service_port taken[] = {port(BLUE, 20447), port(GREEN, 20450), port("wh-3", 20450)};
    service_ports_plan(s, taken, 3, &plan);
    assert_int_equal(taken[0].number, 20443);
    assert_int_equal(taken[1].number, 20450);
    assert_int_equal(taken[2].number, 20444);
    cJSON_Delete(plan.apply);
    cJSON_Delete(s);
}

static void nothing_is_applied_when_all_is_right(void **state)
{
    (void)state;
    static const struct {
        const char *ports;
        const char *managed;
        bool right;
    } cases[] = {
        {NAMED "," OURS(BLUE, "20443"), OWNS(KEY("20443")), true},
        {NAMED "," OURS(BLUE, "20443"), "", true},
        /* Somebody has applied all of it as his own; then it is made ours, too. */
        {NAMED "," OURS(BLUE, "20443"), "[]", false},
        /* One is too many, and goes; but not what somebody else has taken over. */
        {NAMED "," OURS(BLUE, "20443") "," OURS(GREEN, "20444"),
         OWNS(KEY("20443") "," KEY("20444")), false},
        {NAMED "," OURS(BLUE, "20443") "," OURS(GREEN, "20444"), OWNS(KEY("20443")), true},
        {NAMED, OWNS(KEY("20443")), false},
        {NAMED ",{'name':'" BLUE "','port':20443,'protocol':'TCP','targetPort':20443}",
         OWNS(KEY("20443")), false},
        {NAMED ",{'name':'" BLUE "','port':20443,'protocol':'UDP','targetPort':'" BLUE "'}",
         OWNS(KEY("20443")), false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cJSON *s = service(cases[i].ports, cases[i].managed);
        struct service_port ports[] = {port(BLUE, 0)};
        struct service_ports plan;
        service_ports_plan(s, ports, 1, &plan);
        assert_int_equal(plan.right, cases[i].right);
        assert_true((plan.apply == NULL) == cases[i].right);
        assert_int_equal(ports[0].number, 20443);
        cJSON_Delete(plan.apply);
        cJSON_Delete(s);
    }
}

static void at_the_end_ours_go(void **state)
{
    (void)state;
    struct service_ports plan;
    cJSON *s = service(NAMED "," OURS(BLUE, "20443"), OWNS(KEY("20443")));
    service_ports_plan(s, NULL, 0, &plan);
    expect_apply(plan.apply, NULL);
    cJSON_Delete(s);
    s = service(NAMED, OWNS(""));
    service_ports_plan(s, NULL, 0, &plan);
    assert_true(plan.right);
    cJSON_Delete(s);
}

static void a_port_without_name_is_alone(void **state)
{
    (void)state;
    cJSON *s = service("{'port':443,'targetPort':9443}", "");
    struct service_port ports[] = {port(BLUE, 0)};
    struct service_ports plan;
    service_ports_plan(s, ports, 1, &plan);
    assert_int_equal(plan.fault, SERVICE_PORTS_UNNAMED);
    assert_null(plan.apply);
    service_ports_plan(s, NULL, 0, &plan);
    assert_int_equal(plan.fault, SERVICE_PORTS_FINE);
    assert_true(plan.right);
    cJSON_Delete(s);
}

static void there_is_a_bound(void **state)
{
    (void)state;
    struct service_port ports[SERVICE_PORTS_MAX];
    struct service_ports plan;
    cJSON *s = service(NAMED "," OURS("wh-00000000", "20443"), "");
    for (unsigned i = 0; i < SERVICE_PORTS_MAX; i++) {
        ports[i] = (struct service_port){.number = 0};
        (void)snprintf(ports[i].name, sizeof ports[i].name, "wh-%08x", i);
    }
    service_ports_plan(s, ports, SERVICE_PORTS_MAX, &plan);
    assert_int_equal(plan.fault, SERVICE_PORTS_TOO_MANY);
    assert_null(plan.apply);
    service_ports_plan(s, ports, SERVICE_PORTS_MAX - 1, &plan);
    assert_int_equal(plan.fault, SERVICE_PORTS_FINE);
    assert_int_equal(ports[SERVICE_PORTS_MAX - 2].number, 20443 + SERVICE_PORTS_MAX - 2);
    cJSON_Delete(plan.apply);
    cJSON_Delete(s);
}

static void where_a_port_leads(void **state)
{
    (void)state;
    static const struct {
        const char *ports;
        enum service_ports_target target;
    } cases[] = {
        {"{'port':443,'targetPort':9443}", SERVICE_PORTS_THERE},
        {"{'port':443,'targetPort':'https'}", SERVICE_PORTS_THERE},
        {"{'port':443,'targetPort':8443}", SERVICE_PORTS_OTHER},
        {"{'port':443}", SERVICE_PORTS_OTHER},
        {"{'port':443,'targetPort':0}", SERVICE_PORTS_OTHER},
        {"{'port':444,'targetPort':9443}", SERVICE_PORTS_ABSENT},
        {"{'port':443,'protocol':'UDP','targetPort':9443}", SERVICE_PORTS_ABSENT},
        {"", SERVICE_PORTS_ABSENT},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cJSON *s = service(cases[i].ports, "");
        assert_int_equal(service_ports_target(s, 443, 9443), cases[i].target);
        cJSON_Delete(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_given_from_the_first_free_one_on),
        cmocka_unit_test(numbers_are_kept),
        cmocka_unit_test(nothing_is_applied_when_all_is_right),
        cmocka_unit_test(at_the_end_ours_go),
        cmocka_unit_test(a_port_without_name_is_alone),
        cmocka_unit_test(there_is_a_bound),
        cmocka_unit_test(where_a_port_leads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
