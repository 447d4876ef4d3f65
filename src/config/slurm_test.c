/* slurm_test.c: node lists as Slurm writes them, and as nobody should. */
#include "base/claim.h"
#include "base/mem.h"
#include "config/slurm.h"

static char error[300];

/* The workers' hosts by rank, with blanks between. */
static const char *expand(const char *nodes, const char *tasks,
                          const char *each)
{
    static char text[4000];
    struct cluster cluster;
    size_t used = 0;

    error[0] = '\0';
    if (slurm_parse(nodes, tasks, each, &cluster, error, sizeof(error)) !=
        PSD_OK) {
        fail_msg("%s: %s", nodes, error);
    }
    text[0] = '\0';
    for (uint32_t i = 0; i < cluster.workers && used < sizeof(text); i++) {
        used += (size_t)snprintf(
            text + used, sizeof(text) - used, "%s%s", i == 0 ? "" : " ",
            cluster.hosts[cluster.worker_seats[i].host].name);
    }
    assert_int_equal(cluster.servers, 0);
    assert_int_equal(cluster.master, CLUSTER_HERE);
    assert_string_equal(cluster.origin, "Slurm");
    cluster_fini(&cluster);
    return text;
}

static void lists_are_expanded(void **state)
{
    (void)state;
    assert_string_equal(expand("a", NULL, NULL), "a");
    assert_string_equal(expand("a,b.c", NULL, NULL), "a b.c");
    assert_string_equal(expand("node[01-03,07],gpu-[1-2]x[3-4]", NULL, NULL),
                        "node01 node02 node03 node07 "
                        "gpu-1x3 gpu-1x4 gpu-2x3 gpu-2x4");
    assert_string_equal(expand("r[1-2]n[1,3]-ib,z", NULL, NULL),
                        "r1n1-ib r1n3-ib r2n1-ib r2n3-ib z");
    assert_string_equal(expand("n[8-11]", NULL, NULL), "n8 n9 n10 n11");
    assert_string_equal(expand("n[098-101]", NULL, NULL),
                        "n098 n099 n100 n101");
    assert_string_equal(expand("n[5]", NULL, NULL), "n5");
    assert_string_equal(expand("n[0-0]", NULL, NULL), "n0");
    assert_string_equal(expand("[1-2]n", NULL, NULL), "1n 2n");
}

static void tasks_say_how_many_workers_there_are(void **state)
{
    (void)state;
    assert_string_equal(expand("a[1-4]", "2(x3),1", NULL),
                        "a1 a1 a2 a2 a3 a3 a4");
    assert_string_equal(expand("a,b", "1,3", NULL), "a b b b");
    assert_string_equal(expand("a,b", "2(x2)", "7"), "a a b b");
    assert_string_equal(expand("a,b", NULL, "2"), "a a b b");
    assert_string_equal(expand("a,a", NULL, NULL), "a a");
}

static void refused(const char *nodes, const char *tasks, const char *each,
                    const char *part)
{
    struct cluster cluster = { .workers = 77 };

    if (slurm_parse(nodes, tasks, each, &cluster, error, sizeof(error)) !=
        PSD_EINVAL) {
        fail_msg("%s is taken", nodes);
    }
    if (strstr(error, part) == NULL) {
        fail_msg("'%s' is not in '%s'", part, error);
    }
    assert_int_equal(cluster.workers, 77);
}

static void bad_lists_are_refused_with_the_variable(void **state)
{
    static const char *const bad[] = {
        "",      ",",      "a,",     ",a",    "a[",     "a[1",   "a]",
        "a[]",   "a[1-]",  "a[-1]",  "a[x]",  "a[2-1]", "a[1,]", "a[,1]",
        "a[1 2]", "a[[1]]", "a[1-2-3]", "a b", "-a",    "a[1],-b", "a;b",
        "$(x)",  "a\nb",   "a[1234567890]", "a[1]]",
        "a[1][1][1][1][1][1][1][1][1]",
    };

    (void)state;
    for (size_t i = 0; i < CLAIM_COUNT(bad); i++) {
        refused(bad[i], NULL, NULL, "SLURM_JOB_NODELIST is '");
    }
    refused("a[2-1]", NULL, NULL,
            "SLURM_JOB_NODELIST is 'a[2-1]': a range must be as in [01-03]");
}

static void bad_tasks_are_refused_with_the_variable(void **state)
{
    static const char *const bad[] = {
        "x",  "0",       "2(x",     "2(x0)",   "2(x1",    "2(x1)x", "2,",
        ",2", "-1",      "2x3",     "2(3)",    "99999",   "1,1,1",  "1(x3)",
        " 1", "2(x1),x", "1(x9999999999)",
    };

    (void)state;
    for (size_t i = 0; i < CLAIM_COUNT(bad); i++) {
        refused("a,b", bad[i], NULL, "SLURM_TASKS_PER_NODE is '");
    }
    refused("a,b", "", NULL, "it is empty");
    refused("a,b", "1", NULL, "has fewer nodes");
    refused("a,b", "1(x3)", NULL, "has more nodes");
    refused("a,b", NULL, "x", "SLURM_NTASKS_PER_NODE is 'x'");
    refused("a,b", NULL, "2(x2)", "SLURM_NTASKS_PER_NODE is '2(x2)'");
}

static void expansion_is_bounded(void **state)
{
    char name[600];

    (void)state;
    refused("a[0-999999999]", NULL, NULL, "more nodes than the 1024");
    refused("a[0-9][0-9][0-9][0-9]", NULL, NULL, "more nodes than");
    refused("a[1-1024]", "2(x1024)", NULL, "more workers than the 1024");
    refused("a[1-3]", NULL, "500", "more workers than the 1024");
    memset(name, 'a', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    refused(name, NULL, NULL, "too long");
    memcpy(name + 255, "[1-2]", 6);
    refused(name, NULL, NULL, "a name is too long");
}

static void the_environment_is_read(void **state)
{
    struct cluster cluster;

    (void)state;
    unsetenv("SLURM_JOB_ID");
    assert_false(slurm_is_here());
    setenv("SLURM_JOB_ID", "12", 1);
    assert_true(slurm_is_here());
    unsetenv("SLURM_JOB_NODELIST");
    unsetenv("SLURM_TASKS_PER_NODE");
    unsetenv("SLURM_NTASKS_PER_NODE");
    assert_int_equal(slurm_read(&cluster, error, sizeof(error)), PSD_EINVAL);
    assert_non_null(strstr(error, "SLURM_JOB_NODELIST is not set"));
    setenv("SLURM_JOB_NODELIST", "n[1-3]", 1);
    setenv("SLURM_TASKS_PER_NODE", "4(x3)", 1);
    assert_int_equal(slurm_read(&cluster, error, sizeof(error)), PSD_OK);
    assert_int_equal(cluster.workers, 12);
    assert_int_equal(cluster.host_count, 3);
    cluster_fini(&cluster);
}

static void every_lack_of_memory_is_survived(void **state)
{
    struct cluster cluster;
    psd_status status = PSD_ENOMEM;
    long n = 0;

    (void)state;
    while (status != PSD_OK) {
        mem_fail_after(++n);
        status = slurm_parse("a[1-3]", "2(x3)", NULL, &cluster, error,
                             sizeof(error));
        mem_fail_after(0);
    }
    assert_true(n > 9);
    cluster_fini(&cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_expanded),
        cmocka_unit_test(tasks_say_how_many_workers_there_are),
        cmocka_unit_test(bad_lists_are_refused_with_the_variable),
        cmocka_unit_test(bad_tasks_are_refused_with_the_variable),
        cmocka_unit_test(expansion_is_bounded),
        cmocka_unit_test(the_environment_is_read),
        cmocka_unit_test(every_lack_of_memory_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
