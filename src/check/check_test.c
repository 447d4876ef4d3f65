/* check_test.c: what psd check makes of facts and figures: sentences, tables,
 * JSON. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/mem.h"
#include "check/check.h"

#define HOSTS_MAX 20

struct rig {
    struct cluster cluster;
    struct cluster_host where[HOSTS_MAX];
    char names[HOSTS_MAX][16];
    struct check_plan plan;
    struct check_result result;
};

static struct probe_facts *good_facts(uint32_t index)
{
    struct probe_facts *facts = mem_zalloc(sizeof(*facts));

    assert_non_null(facts);
    facts->cores = 4;
    facts->memory = UINT64_C(16) << 30;
    facts->memory_free = UINT64_C(8) << 30;
    facts->disk = UINT64_C(100) << 30;
    facts->disk_free = UINT64_C(50) << 30;
    facts->disk_writable = 1;
    facts->files = 1024;
    facts->files_max = 4096;
    facts->package_count = 1;
    snprintf(facts->packages[0].name, sizeof(facts->packages[0].name),
             "torch");
    snprintf(facts->packages[0].version, sizeof(facts->packages[0].version),
             "2.3.1");
    snprintf(facts->logs, sizeof(facts->logs), "/work");
    snprintf(facts->python, sizeof(facts->python), "/usr/bin/python3");
    snprintf(facts->python_version, sizeof(facts->python_version), "3.11.2");
    snprintf(facts->address, sizeof(facts->address), "10.0.0.%u", index + 1);
    snprintf(facts->url, sizeof(facts->url), "tcp:10.0.0.%u:7000", index + 1);
    return facts;
}

/* `count` hosts, all well. */
static void rig_init(struct rig *rig, uint32_t count)
{
    struct check_result *result = &rig->result;

    memset(rig, 0, sizeof(*rig));
    rig->cluster.host_count = count;
    rig->cluster.hosts = rig->where;
    rig->plan.cluster = &rig->cluster;
    rig->plan.ports = "7000-7100";
    rig->plan.logs = ".";
    result->plan = &rig->plan;
    result->count = count;
    result->hosts = mem_zalloc_array(count, sizeof(*result->hosts));
    result->pairs = mem_zalloc_array((size_t)count * count,
                                     sizeof(*result->pairs));
    for (uint32_t i = 0; i < count; i++) {
        struct check_host *host = &result->hosts[i];

        snprintf(rig->names[i], sizeof(rig->names[i]), "node%u", i);
        rig->where[i].name = rig->names[i];
        host->where = &rig->where[i];
        host->workers = 1;
        host->reached = true;
        snprintf(host->version, sizeof(host->version), "%s", psd_version());
        host->facts = good_facts(i);
        host->has_clock = true;
        host->clock_error_s = 1e-4;
        for (uint32_t k = 0; k < count; k++) {
            *check_pair(result, i, k) = (struct check_pair){
                .contact = i == k ? CHECK_UNTRIED : CHECK_REACHED,
                .measured = i != k,
                .trip_s = i == k ? 0 : 1e-4,
                .rate = i == k ? 0 : 0.118e9,
            };
        }
    }
}

static void cut(struct rig *rig, uint32_t from, uint32_t to)
{
    struct check_pair *pair = check_pair(&rig->result, from, to);

    *pair = (struct check_pair){ .contact = CHECK_NOT_REACHED };
    pair->reason = mem_strdup("no answer in 3.0 s");
}

static const char *only_problem(struct rig *rig, bool warning, uint32_t host)
{
    assert_int_equal(check_judge(&rig->result), PSD_OK);
    if (rig->result.problem_count != 1) {
        for (uint32_t i = 0; i < rig->result.problem_count; i++) {
            print_message("# %s\n", rig->result.problems[i].text);
        }
    }
    assert_int_equal(rig->result.problem_count, 1);
    assert_true(rig->result.problems[0].warning == warning);
    assert_int_equal(rig->result.problems[0].host, host);
    assert_true(check_is_well(&rig->result) == warning);
    return rig->result.problems[0].text;
}

static void contains(const char *text, const char *part)
{
    assert_non_null(text);
    if (strstr(text, part) == NULL) {
        fail_msg("expected \"%s\" in:\n%s", part, text);
    }
}

static void nothing_is_wrong_where_all_is_well(void **state)
{
    static struct rig rig;

    (void)state;
    for (uint32_t count = 1; count <= 4; count++) {
        rig_init(&rig, count);
        assert_int_equal(check_judge(&rig.result), PSD_OK);
        assert_int_equal(rig.result.problem_count, 0);
        assert_true(check_is_well(&rig.result));
        check_fini(&rig.result);
    }
}

static void a_cut_pair_is_one_problem(void **state)
{
    static struct rig rig;
    const char *text;

    (void)state;
    rig_init(&rig, 4);
    cut(&rig, 1, 3);
    cut(&rig, 3, 1);
    text = only_problem(&rig, false, 1);
    contains(text, "is not reached by, node3 at 10.0.0.4: no answer");
    contains(text, "`ssh node1 ping -c 3 10.0.0.4`");
    contains(text, "`ssh node3 sudo ufw allow proto tcp from 10.0.0.2 to any "
                   "port 7000:7100`");
    check_fini(&rig.result);
    rig_init(&rig, 4);
    cut(&rig, 3, 1); /* one way only */
    text = only_problem(&rig, false, 3);
    contains(text, "it does not reach node1 at 10.0.0.2");
    check_fini(&rig.result);
}

static void a_host_that_nobody_reaches_is_one_problem(void **state)
{
    static struct rig rig;
    const char *text;

    (void)state;
    rig_init(&rig, 5);
    for (uint32_t i = 0; i < 5; i++) {
        if (i != 2) {
            cut(&rig, i, 2);
        }
    }
    text = only_problem(&rig, false, 2);
    contains(text, "no other host reaches it at 10.0.0.3: no answer");
    check_fini(&rig.result);
}

static void hundreds_of_cuts_are_not_told_one_by_one(void **state)
{
    static struct rig rig;
    const char *last;

    (void)state;
    rig_init(&rig, HOSTS_MAX);
    for (uint32_t i = 0; i < HOSTS_MAX; i++) {
        for (uint32_t k = 0; k < HOSTS_MAX; k++) {
            if (i % 2 != k % 2) { /* two halves */
                cut(&rig, i, k);
            }
        }
    }
    assert_int_equal(check_judge(&rig.result), PSD_OK);
    assert_int_equal(rig.result.problem_count, 21);
    last = rig.result.problems[20].text;
    contains(last, "80 more pairs");
    check_fini(&rig.result);
}

static void facts_become_sentences(void **state)
{
    static struct rig rig;
    struct check_host *host = &rig.result.hosts[0];

    (void)state;
    rig_init(&rig, 1);
    host = &rig.result.hosts[0];
    host->workers = 1000;
    contains(only_problem(&rig, false, 0), "6064 open files, 4096");
    check_fini(&rig.result);

    rig_init(&rig, 2);
    rig.result.hosts[1].facts->disk_free = 1000;
    contains(only_problem(&rig, false, 1), "is full");
    check_fini(&rig.result);

    rig_init(&rig, 2);
    rig.result.hosts[1].clock_s = -7;
    contains(only_problem(&rig, true, 1), "7.0 s behind");
    check_fini(&rig.result);

    rig_init(&rig, 2);
    rig.cluster.virtualenv = (char *)"/venv";
    rig.result.hosts[1].facts->python[0] = '\0';
    rig.where[1].user = (char *)"ann";
    rig.where[1].port = 2222;
    contains(only_problem(&rig, false, 1),
             "`ssh -p 2222 ann@node1 python3 -m venv /venv`");
    check_fini(&rig.result);

    rig_init(&rig, 2);
    rig.where[0].local = true; /* no ssh to ourselves */
    rig.result.hosts[0].facts->python[0] = '\0';
    contains(only_problem(&rig, true, 0), "`sudo apt-get install python3`");
    check_fini(&rig.result);
}

static void differing_packages_are_one_sentence(void **state)
{
    static struct rig rig;
    const char *text;

    (void)state;
    rig_init(&rig, 5);
    rig.result.hosts[1].facts->package_count = 0;
    rig.result.hosts[3].facts->package_count = 0;
    text = only_problem(&rig, true, 1);
    contains(text, "it and 1 more (node3) have no torch, node0 has 2.3.1");
    contains(text, "pip install torch==2.3.1`");
    check_fini(&rig.result);
}

static void a_slow_host_is_named(void **state)
{
    static struct rig rig;

    (void)state;
    rig_init(&rig, 4);
    for (uint32_t i = 0; i < 4; i++) {
        check_pair(&rig.result, i, 3)->rate = i == 3 ? 0 : 0.01e9;
        check_pair(&rig.result, 3, i)->rate = i == 3 ? 0 : 0.01e9;
    }
    contains(only_problem(&rig, true, 3), "its network is slow");
    check_fini(&rig.result);
}

static char *render(const struct check_result *result, bool json)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);

    assert_non_null(file);
    if (json) {
        assert_int_equal(check_print_json(result, file), PSD_OK);
    } else {
        check_print_table(result, file);
    }
    fclose(file);
    return text;
}

static void the_table_shows_hosts_pairs_and_problems(void **state)
{
    static struct rig rig;
    struct check_host *host;
    char *text;

    (void)state;
    rig_init(&rig, 3);
    host = &rig.result.hosts[2];
    host->reached = false;
    host->key = CHECK_KEY_CHANGED;
    host->version[0] = '\0';
    mem_free(host->facts);
    host->facts = NULL;
    snprintf(host->reason, sizeof(host->reason), "its host key; `x`");
    for (uint32_t i = 0; i < 3; i++) {
        check_pair(&rig.result, i, 2)->contact = CHECK_UNTRIED;
        check_pair(&rig.result, 2, i)->contact = CHECK_UNTRIED;
        check_pair(&rig.result, i, 2)->rate = 0;
        check_pair(&rig.result, 2, i)->rate = 0;
        check_pair(&rig.result, i, 2)->measured = false;
        check_pair(&rig.result, 2, i)->measured = false;
    }
    assert_int_equal(check_judge(&rig.result), PSD_OK);
    text = render(&rig.result, false);
    contains(text, "HOST   SSH          PSD");
    contains(text, "node0  ok           0.1.0  3.11.2  4      -     8.6 GB");
    contains(text, "node2  KEY CHANGED  ?      ?");
    contains(text, "torch 2.3.1");
    contains(text, "  0 node0       .   0.118       ?\n");
    contains(text, "  0 node0       .   0.100       ?\n");
    contains(text, "problem: host node2: its host key; `x`\n");
    contains(text, "3 hosts, 1 problem, 0 warnings");
    free(text);
    check_fini(&rig.result);
}

static void many_hosts_are_a_list(void **state)
{
    static struct rig rig;
    char *text;

    (void)state;
    rig_init(&rig, HOSTS_MAX);
    check_pair(&rig.result, 4, 7)->rate = 0.05e9;
    cut(&rig, 9, 2);
    assert_int_equal(check_judge(&rig.result), PSD_OK);
    text = render(&rig.result, false);
    contains(text, "the median is 0.118 GB/s\n     CUT      CUT  node9 -> "
                   "node2\n   0.050    0.100  node4 -> node7\n");
    contains(text, "and 360 more; --json has all");
    free(text);
    check_fini(&rig.result);
}

static void json_has_everything(void **state)
{
    static struct rig rig;
    json_t *root;
    json_t *one;
    char *text;

    (void)state;
    rig_init(&rig, 2);
    cut(&rig, 0, 1);
    cut(&rig, 1, 0);
    rig.result.hosts[1].facts->files_max = UINT64_MAX; /* no limit */
    assert_int_equal(check_judge(&rig.result), PSD_OK);
    text = render(&rig.result, true);
    root = json_loads(text, 0, NULL);
    assert_non_null(root);
    assert_true(json_is_false(json_object_get(root, "well")));
    assert_int_equal(json_array_size(json_object_get(root, "hosts")), 2);
    assert_int_equal(json_array_size(json_object_get(root, "pairs")), 2);
    one = json_array_get(json_object_get(root, "hosts"), 1);
    assert_string_equal(json_string_value(json_object_get(one, "host_key")),
                        "known");
    assert_string_equal(
        json_string_value(json_object_get(
            json_object_get(json_object_get(one, "facts"), "packages"),
            "torch")),
        "2.3.1");
    one = json_array_get(json_object_get(root, "problems"), 0);
    assert_int_equal(json_array_size(json_object_get(one, "commands")), 2);
    json_decref(root);
    free(text);
    check_fini(&rig.result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_wrong_where_all_is_well),
        cmocka_unit_test(a_cut_pair_is_one_problem),
        cmocka_unit_test(a_host_that_nobody_reaches_is_one_problem),
        cmocka_unit_test(hundreds_of_cuts_are_not_told_one_by_one),
        cmocka_unit_test(facts_become_sentences),
        cmocka_unit_test(differing_packages_are_one_sentence),
        cmocka_unit_test(a_slow_host_is_named),
        cmocka_unit_test(the_table_shows_hosts_pairs_and_problems),
        cmocka_unit_test(many_hosts_are_a_list),
        cmocka_unit_test(json_has_everything),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
