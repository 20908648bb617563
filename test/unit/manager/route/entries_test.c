/* SPDX-License-Identifier: Apache-2.0 */
#include "route/entries.h"

#include "manager/route/route_fixture.h"

#include "base/array.h"
#include "base/xalloc.h"
#include "kube/name.h"
#include "rounds.h"
#include "route/narrowing.h"
#include "json/edit.h"
#include "json/field.h"

enum { SHARDS = 5 };

static const struct entries_shard shards[SHARDS] = {
    {"ops/a", 20443}, {"ops/b", 20444}, {"ops/c", 20445}, {"ops/d", 20446}, {"ops/e", 20447}};

#define ORIGINAL                                                                                   \
    "{\"name\":\"v.example.com\",\"clientConfig\":{\"caBundle\":\"Y2E=\",\"service\":{"            \
    "\"namespace\":\"ops\",\"name\":\"webhook\",\"path\":\"/v\",\"port\":443}},\"rules\":[{"       \
    "\"operations\":[\"*\"],\"apiGroups\":[\"\"],\"apiVersions\":[\"v1\"],\"resources\":["         \
    "\"pods\"],\"scope\":\"*\"}],\"failurePolicy\":\"Fail\",\"matchPolicy\":\"Equivalent\","       \
    "\"objectSelector\":{\"matchLabels\":{\"x\":\"y\"}},\"sideEffects\":\"None\",\"timeoutSeconds" \
    "\":10,\"admissionReviewVersions\":[\"v1\"],\"fieldOfTomorrow\":{\"a\":1}"

static cJSON *original_with(const char *selector)
{
    char text[2048];
    (void)snprintf(text, sizeof text, ORIGINAL ",\"namespaceSelector\":%s}", selector);
    return fixture_json(text);
}

#define RULES "[{\"apiGroups\":[\"\"],\"resources\":[\"pods\"],\"scope\":\"Namespaced\"}]"
#define OTHERS "[{\"apiGroups\":[\"\"],\"resources\":[\"events\"],\"scope\":\"Namespaced\"}]"

struct fixture {
    struct entries_webhook webhook;
    struct route_rules rules;
    struct partition partition;
    cJSON *original;
    cJSON *entries;
};

static void fixture_init(struct fixture *f, const char *selector)
{
    *f = (struct fixture){.original = original_with(selector), .entries = cJSON_CreateArray()};
    f->webhook = (struct entries_webhook){.keys = &fixture_keys,
                                          .configuration = "operator",
                                          .webhook = f->original,
                                          .shards = shards,
                                          .shard_count = SHARDS,
                                          .hold_port = 20500};
    f->rules.routed = fixture_json(RULES);
    partition_init(&f->partition);
}

static void fixture_deinit(struct fixture *f)
{
    route_rules_deinit(&f->rules);
    partition_deinit(&f->partition);
    cJSON_Delete(f->entries);
    cJSON_Delete(f->original);
}

static void make(struct fixture *f)
{
    cJSON_Delete(f->entries);
    f->entries = cJSON_CreateArray();
    entries_make(&f->webhook, &f->rules, &f->partition, f->entries);
}

/* ---- what they look like ---- */

static void expect_entry(const cJSON *entries, int place, const char *selector, int port)
{
    const cJSON *entry = cJSON_GetArrayItem(entries, place);
    const cJSON *got = field_get(entry, "namespaceSelector");
    struct entries_service service;
    cJSON *wanted = fixture_json(selector);
    if (!cJSON_Compare(got, wanted, true)) {
        fail_msg("entry %d: %s", place, cJSON_Print(got));
    }
    assert_true(entries_service_of(entry, &service));
    assert_int_equal(service.port, port);
    cJSON_Delete(wanted);
}

#define EXISTS "{\"key\":\"C\",\"operator\":\"Exists\"}"
#define NARROW "{\"key\":\"C\",\"operator\":\"DoesNotExist\"}"
#define NAMES(op, values) ",{\"key\":\"N\",\"operator\":\"" op "\",\"values\":[" values "]}"
#define HASHES(op, values) ",{\"key\":\"H\",\"operator\":\"" op "\",\"values\":[" values "]}"
#define SELECTOR(more) "{\"matchExpressions\":[" EXISTS more "]}"

/* The hash of "a" is 1, of "b" 2, of "c" 3. */
static void the_entries_of_a_partition(void **state)
{
    (void)state;
    static const struct partition_name names[] = {
        {"a", 0}, {"b", PARTITION_REST}, {"c", PARTITION_HELD}, {"d", 1}};
    struct fixture f;
    fixture_init(&f, "{}");
    f.rules.others = fixture_json(OTHERS);
    partition_set_names(&f.partition, names, ARRAY_LEN(names));
    f.partition.hashes[2] = 1;
    f.partition.hashes[3] = 1;
    f.partition.hashes[5] = PARTITION_HELD;
    make(&f);
    assert_int_equal(cJSON_GetArraySize(f.entries), 8);
    expect_entry(f.entries, 0, SELECTOR(""), 443);
    expect_entry(f.entries, 1, SELECTOR(NAMES("In", "\"b\"")), 443);
    expect_entry(
        f.entries, 2,
        SELECTOR(HASHES("NotIn", "\"2\",\"3\",\"5\"") NAMES("NotIn", "\"a\",\"b\",\"c\",\"d\"")),
        443);
    expect_entry(f.entries, 3, SELECTOR(NAMES("In", "\"c\"")), 20500);
    expect_entry(f.entries, 4, SELECTOR(HASHES("In", "\"5\"")), 20500);
    expect_entry(f.entries, 5, SELECTOR(NAMES("In", "\"a\"")), 20443);
    expect_entry(f.entries, 6, SELECTOR(NAMES("In", "\"d\"")), 20444);
    expect_entry(f.entries, 7, SELECTOR(HASHES("In", "\"2\",\"3\"") NAMES("NotIn", "\"b\",\"c\"")),
                 20444);
    fixture_deinit(&f);
}

/* Some operators copy the one selector into the other, with what narrows it. */
static void no_object_is_left_out_by_what_narrows_the_original(void **state)
{
    static const char *const selectors[][2] = {
        {"{\"matchExpressions\":[" NARROW "]}", "{}"},
        {"{\"matchLabels\":{\"x\":\"y\"},\"matchExpressions\":[" NARROW
         ",{\"key\":\"z\",\"operator\":\"DoesNotExist\"}]}",
         "{\"matchLabels\":{\"x\":\"y\"},\"matchExpressions\":[{\"key\":\"z\","
         "\"operator\":\"DoesNotExist\"}]}"}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(selectors); i++) {
        struct fixture f;
        fixture_init(&f, "{}");
        cJSON *wanted = fixture_json(selectors[i][1]);
        cJSON_ReplaceItemInObject(f.original, "objectSelector", fixture_json(selectors[i][0]));
        make(&f);
        assert_int_equal(cJSON_GetArraySize(f.entries), 1);
        assert_true(cJSON_Compare(field_get(f.entries->child, "objectSelector"), wanted, true));
        cJSON_Delete(wanted);
        fixture_deinit(&f);
    }
}

static void what_is_copied(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, "{\"matchLabels\":{\"team\":\"red\"},\"matchExpressions\":[" NARROW
                     ",{\"key\":\"z\",\"operator\":\"Exists\"}]}");
    f.partition.hashes[0] = 2;
    f.webhook.service = "routes";
    make(&f);
    assert_int_equal(cJSON_GetArraySize(f.entries), 2);
    expect_entry(f.entries, 1,
                 "{\"matchLabels\":{\"team\":\"red\"},\"matchExpressions\":[{\"key\":\"z\","
                 "\"operator\":\"Exists\"}," EXISTS HASHES("In", "\"0\"") "]}",
                 20445);
    for (int i = 0; i < 2; i++) {
        cJSON *entry = cJSON_GetArrayItem(f.entries, i);
        cJSON *wanted = cJSON_Duplicate(f.original, true);
        struct edit ed = {0};
        const char *service = i == 0 ? "webhook" : "routes";
        assert_string_equal(
            field_text(field_get(field_get(entry, "clientConfig"), "service"), "name"), service);
        cJSON *client = edit_object(&ed, edit_object(&ed, wanted, "clientConfig"), "service");
        edit_string(&ed, client, "name", service);
        edit_number(&ed, client, "port", i == 0 ? 443 : 20445);
        edit_set(&ed, wanted, "rules", fixture_json(RULES));
        edit_string(&ed, wanted, "name", field_text(entry, "name"));
        edit_set(&ed, wanted, "namespaceSelector",
                 cJSON_Duplicate(field_get(entry, "namespaceSelector"), true));
        assert_true(cJSON_Compare(entry, wanted, true));
        cJSON_Delete(wanted);
    }
    fixture_deinit(&f);
}

static void what_cannot_be_routed_has_one_entry(void **state)
{
    (void)state;
    struct fixture f;
    struct partition present;
    fixture_init(&f, "{\"matchExpressions\":[" NARROW "]}");
    route_rules_deinit(&f.rules);
    f.rules.others = fixture_json(OTHERS);
    entries_make(&f.webhook, &f.rules, NULL, f.entries);
    assert_int_equal(cJSON_GetArraySize(f.entries), 1);
    expect_entry(f.entries, 0, SELECTOR(""), 443);
    assert_true(entries_read(&f.webhook, f.entries, &present, NULL));
    assert_false(partition_has(&present, 0));
    partition_deinit(&present);
    fixture_deinit(&f);
}

/* Nobody is to be unasked while a Service has no port for a shard. */
static void an_owner_without_a_port_is_the_rest(void **state)
{
    (void)state;
    static const struct entries_shard without[] = {{"ops/a", 0}, {"ops/b", 20444}};
    static const struct partition_name names[] = {{"x", 0}, {"y", PARTITION_HELD}};
    struct fixture f;
    fixture_init(&f, "{}");
    f.webhook.shards = without;
    f.webhook.shard_count = 2;
    f.webhook.hold_port = 0;
    partition_set_names(&f.partition, names, ARRAY_LEN(names));
    f.partition.hashes[1] = 0;
    f.partition.hashes[2] = PARTITION_HELD;
    make(&f);
    assert_int_equal(cJSON_GetArraySize(f.entries), 2);
    expect_entry(f.entries, 0, SELECTOR(NAMES("In", "\"x\",\"y\"")), 443);
    expect_entry(f.entries, 1, SELECTOR(NAMES("NotIn", "\"x\",\"y\"")), 443);
    fixture_deinit(&f);
}

/* ---- names ---- */

static void names_that_the_api_server_takes(void **state)
{
    (void)state;
    char names[5][NAME_SUBDOMAIN_MAX + 1];
    (void)snprintf(names[0], sizeof names[0], "v.example.com");
    for (size_t i = 1; i < ARRAY_LEN(names); i++) {
        (void)memset(names[i], 'a', NAME_SUBDOMAIN_MAX);
        names[i][NAME_SUBDOMAIN_MAX] = '\0';
    }
    names[1][1] = names[1][3] = '.'; /* one part is all that is left */
    names[2][100] = names[2][200] = '.';
    names[3][8] = names[3][9] = '-'; /* cut at a dash */
    names[3][1] = names[3][20] = '.';
    names[4][1] = names[4][3] = '.'; /* one part that has a dash where it could be cut in two */
    names[4][10] = '-';
    struct labels_keys other = fixture_keys; /* of another installation */
    (void)snprintf(other.key[LABELS_CONTROL], NAMES_KEY_SIZE, "other.example.com/control");
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct fixture f;
        struct edit ed = {0};
        unsigned dots = 0;
        fixture_init(&f, "{}");
        edit_string(&ed, f.original, "name", names[i]);
        make(&f);
        const char *name = field_text(f.entries->child, "name");
        assert_true(entries_may_have(&fixture_keys, f.entries, f.original));
        assert_false(entries_may_have(&other, f.entries, f.original));
        assert_false(entries_may_have(&fixture_keys, NULL, f.original));
        for (const char *at = name; *at != '\0'; at++) {
            dots += *at == '.';
        }
        if (name_check_subdomain(slice_str(name)) != NULL || dots < 2) {
            fail_msg("%s", name);
        }
        fixture_deinit(&f);
    }
}

static void names_differ_by_all_that_tells_entries_apart(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, "{}");
    make(&f);
    char *first = xstrdup(field_text(f.entries->child, "name"));
    assert_string_equal(first + 8, ".v.example.com");
    f.webhook.configuration = "operator-2";
    make(&f);
    assert_string_not_equal(field_text(f.entries->child, "name"), first);
    free(first);
    fixture_deinit(&f);
}

/* ---- random partitions ---- */

enum { RANDOM_NAMES = 24 };

static int random_owner(struct fixture_random *r)
{
    return (int)fixture_pick(r, SHARDS + 2) + PARTITION_HELD;
}

/* Names of which the first are shared; each once. */
static void random_partition(struct fixture_random *r, struct partition *p, unsigned shared)
{
    struct partition_name names[RANDOM_NAMES];
    char texts[RANDOM_NAMES][16];
    size_t count = 0;
    for (size_t i = 0; i < SHARDING_HASH_SIZE; i++) {
        p->hashes[i] = fixture_pick(r, 3) == 0 ? PARTITION_REST : random_owner(r);
    }
    for (unsigned i = 0; i < RANDOM_NAMES; i++) {
        (void)snprintf(texts[i], sizeof texts[i], "ns-%u", i);
        int owner = random_owner(r);
        bool named =
            i < shared || (fixture_pick(r, 2) == 0 && owner != p->hashes[sharding_hash(texts[i])]);
        if (named) {
            names[count++] = (struct partition_name){.name = texts[i], .owner = owner};
        }
    }
    partition_set_names(p, names, count);
}

static int owner_of_entry(const cJSON *entry)
{
    struct entries_service service;
    assert_true(entries_service_of(entry, &service));
    return service.port == 443     ? PARTITION_REST
           : service.port == 20500 ? PARTITION_HELD
                                   : service.port - 20443;
}

/* The one entry that matches; PARTITION_HELD - 1: none does. */
static int asked(const cJSON *entries, const char *ns, const char *hash, bool labelled)
{
    int found = PARTITION_HELD - 1;
    const cJSON *entry;
    cJSON_ArrayForEach(entry, entries)
    {
        if (fixture_matches(field_get(entry, "namespaceSelector"), ns, hash, labelled)) {
            assert_int_equal(found, PARTITION_HELD - 1);
            found = owner_of_entry(entry);
        }
    }
    return found;
}

static unsigned count_asked(const cJSON *entries, const char *ns, const char *hash)
{
    unsigned found = 0;
    const cJSON *entry;
    cJSON_ArrayForEach(entry, entries)
    {
        found += fixture_matches(field_get(entry, "namespaceSelector"), ns, hash, true);
    }
    return found;
}

/* By the label of another hash, a namespace that has an entry by its name meets one of that hash,
 * too; but never none. */
static void check_any_hash(const struct fixture *f, const char *ns, bool matches)
{
    for (int hash = 0; hash <= SHARDING_HASH_SIZE; hash++) {
        char label[16];
        (void)snprintf(label, sizeof label, "%d", hash);
        unsigned count = count_asked(f->entries, ns, label);
        assert_in_range(count, matches, matches ? 2 : 0);
    }
}

static void check_namespace(const struct fixture *f, const cJSON *narrowed, const cJSON *own,
                            const char *ns, bool shared)
{
    enum { NOBODY = PARTITION_HELD - 1 };
    bool matches = fixture_matches(own, ns, "", true);
    int owner = matches ? partition_owner(&f->partition, ns) : NOBODY;
    assert_int_equal(asked(f->entries, ns, "", true), owner);
    if (shared) { /* relabelled already */
        assert_int_equal(asked(f->entries, ns, ns, true), owner);
    }
    check_any_hash(f, ns, matches);
    assert_int_equal(asked(f->entries, ns, "", false), NOBODY);
    assert_false(fixture_matches(narrowed, ns, "", true));
    assert_int_equal(fixture_matches(narrowed, ns, "", false), matches);
}

static bool is_all(void *data, const cJSON *webhook)
{
    (void)data;
    (void)webhook;
    return true;
}

/* The namespaceSelector of the original once we narrowed it. The caller frees. */
static cJSON *narrow(const struct fixture *f)
{
    cJSON *configuration = cJSON_CreateObject();
    cJSON *webhooks = cJSON_AddArrayToObject(configuration, "webhooks");
    cJSON_AddItemToArray(webhooks, cJSON_Duplicate(f->original, true));
    cJSON *patch = narrowing_patch(&fixture_keys, configuration, "x/narrowed", is_all, NULL);
    cJSON *selector =
        cJSON_Duplicate(field_get(field_get(patch, "webhooks")->child, "namespaceSelector"), true);
    cJSON_Delete(patch);
    cJSON_Delete(configuration);
    return selector;
}

static void check_reading(struct fixture *f)
{
    struct partition read;
    int ports[SHARDS];
    assert_true(entries_read(&f->webhook, f->entries, &read, ports));
    assert_true(partition_equal(&read, &f->partition));
    for (int i = 0; i < SHARDS; i++) {
        assert_int_equal(ports[i], partition_has(&read, i) ? shards[i].port : 0);
    }
    partition_deinit(&read);
    cJSON *kept = cJSON_CreateArray();
    entries_keep(&f->webhook, f->entries, kept);
    assert_true(cJSON_Compare(kept, f->entries, true));
    cJSON_Delete(kept);
}

static void random_partitions(void **state)
{
    (void)state;
    static const char *const selectors[] = {
        "{}", "{\"matchLabels\":{\"team\":\"red\"}}",
        "{\"matchExpressions\":[{\"key\":\"team\",\"operator\":\"NotIn\",\"values\":[\"red\"]}]}"};
    uint64_t seed = rounds_number("CMESH_SEED", 1);
    uint64_t end = seed + rounds_number("CMESH_ROUNDS", rounds(40, 1000));
    for (; seed < end; seed++) {
        struct fixture_random r = fixture_random_of(seed);
        const char *selector = selectors[fixture_pick(&r, ARRAY_LEN(selectors))];
        unsigned shared = fixture_pick(&r, 4);
        struct fixture f;
        fixture_init(&f, selector);
        cJSON *own = fixture_json(selector);
        cJSON *narrowed = narrow(&f);
        random_partition(&r, &f.partition, shared);
        make(&f);
        check_reading(&f);
        for (unsigned i = 0; i < 2 * RANDOM_NAMES; i++) {
            char ns[32];
            (void)snprintf(ns, sizeof ns, i < RANDOM_NAMES ? "ns-%u" : "other-%u", i);
            check_namespace(&f, narrowed, own, ns, i < shared);
        }
        cJSON_Delete(own);
        cJSON_Delete(narrowed);
        fixture_deinit(&f);
    }
}

/* ---- reading what has changed since ---- */

static void entries_of_a_shard_that_is_gone(void **state)
{
    (void)state;
    static const struct entries_shard left[] = {{"ops/b", 20444}};
    static const struct partition_name names[] = {{"a", 0}, {"b", 1}};
    struct fixture f;
    struct partition present;
    int port = 0;
    fixture_init(&f, "{}");
    partition_set_names(&f.partition, names, 2);
    f.partition.hashes[sharding_hash("a")] = 1;
    f.partition.hashes[7] = 0;
    make(&f);
    f.webhook.shards = left;
    f.webhook.shard_count = 1;
    assert_true(entries_read(&f.webhook, f.entries, &present, &port));
    assert_int_equal(port, 20444);
    assert_int_equal(partition_owner(&present, "a"), PARTITION_REST); /* not that of its hash */
    assert_int_equal(partition_owner(&present, "b"), 0);
    assert_int_equal(present.hashes[7], PARTITION_REST);
    assert_int_equal(present.hashes[sharding_hash("a")], 0);
    partition_deinit(&present);
    fixture_deinit(&f);
}

static void entries_of_others(void **state)
{
    (void)state;
    struct fixture f;
    struct partition present;
    fixture_init(&f, "{}");
    assert_false(entries_read(&f.webhook, f.entries, &present, NULL));
    partition_deinit(&present);
    f.partition.hashes[1] = 0;
    make(&f);
    f.webhook.configuration = "another";
    assert_false(entries_read(&f.webhook, f.entries, &present, NULL));
    assert_false(partition_has(&present, 0));
    partition_deinit(&present);
    fixture_deinit(&f);
}

/* Nobody of the Service that it is to lead to now has been asked yet: any pod is. */
static void what_leads_to_another_service_is_the_rest(void **state)
{
    (void)state;
    static const struct partition_name names[] = {{"a", 1}, {"b", PARTITION_HELD}};
    struct fixture f;
    struct partition present;
    int ports[SHARDS];
    fixture_init(&f, "{}");
    partition_set_names(&f.partition, names, 2);
    f.partition.hashes[1] = 0;
    make(&f);
    f.webhook.service = "routes";
    assert_true(entries_read(&f.webhook, f.entries, &present, ports));
    assert_int_equal(present.hashes[1], PARTITION_REST);
    assert_int_equal(partition_owner(&present, "a"), PARTITION_REST);
    assert_int_equal(partition_owner(&present, "b"), PARTITION_REST);
    assert_int_equal(ports[0], 0);
    assert_int_equal(ports[1], 0);
    partition_deinit(&present);
    fixture_deinit(&f);
}

/* What a user writes into their own selector is theirs. */
static void an_own_selector_by_control_labels(void **state)
{
    (void)state;
    struct fixture f;
    struct partition present;
    fixture_init(&f, "{\"matchExpressions\":[" EXISTS HASHES("In", "\"1\",\"2\"")
                         NAMES("NotIn", "\"x\"") "]}");
    f.partition.hashes[1] = 3;
    make(&f);
    assert_true(entries_read(&f.webhook, f.entries, &present, NULL));
    assert_true(partition_equal(&present, &f.partition));
    partition_deinit(&present);
    fixture_deinit(&f);
}

static void services_of_webhooks(void **state)
{
    (void)state;
    static const struct {
        const char *client;
        bool is;
        int port;
    } cases[] = {
        {"{\"service\":{\"namespace\":\"n\",\"name\":\"s\"}}", true, 443},
        {"{\"service\":{\"namespace\":\"n\",\"name\":\"s\",\"port\":8443}}", true, 8443},
        {"{\"service\":{\"namespace\":\"n\",\"name\":\"s\",\"port\":1e9}}", true, 0},
        {"{\"service\":{\"namespace\":\"n\",\"name\":\"s\",\"port\":\"x\"}}", true, 0},
        {"{\"url\":\"https://h\"}", false, 0},
        {"{}", false, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cJSON *webhook = cJSON_CreateObject();
        struct entries_service service;
        cJSON_AddItemToObject(webhook, "clientConfig", fixture_json(cases[i].client));
        assert_int_equal(entries_service_of(webhook, &service), cases[i].is);
        if (cases[i].is) {
            assert_string_equal(service.namespace, "n");
            assert_int_equal(service.port, cases[i].port);
        }
        cJSON_Delete(webhook);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_entries_of_a_partition),
        cmocka_unit_test(no_object_is_left_out_by_what_narrows_the_original),
        cmocka_unit_test(what_is_copied),
        cmocka_unit_test(what_cannot_be_routed_has_one_entry),
        cmocka_unit_test(an_owner_without_a_port_is_the_rest),
        cmocka_unit_test(names_that_the_api_server_takes),
        cmocka_unit_test(names_differ_by_all_that_tells_entries_apart),
        cmocka_unit_test(random_partitions),
        cmocka_unit_test(entries_of_a_shard_that_is_gone),
        cmocka_unit_test(entries_of_others),
        cmocka_unit_test(what_leads_to_another_service_is_the_rest),
        cmocka_unit_test(an_own_selector_by_control_labels),
        cmocka_unit_test(services_of_webhooks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
