/* task_test.c: commands that are split, filled in, and what a process finds in
 * its environment. */
#include <jansson.h>
#include <sys/stat.h>

#include "base/claim.h"
#include "base/mem.h"
#include "config/task.h"

static char error[300];

/* ---- splitting ---------------------------------------------------------- */

/* The commands with | between. */
static const char *split(const char *line, uint32_t workers)
{
    static char text[2000];
    struct launch_words commands;
    size_t used = 0;

    assert_int_equal(task_split(line, workers, &commands), PSD_OK);
    assert_null(commands.words[commands.count]);
    for (uint32_t i = 0; i < commands.count; i++) {
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s",
                                 i == 0 ? "" : "|", commands.words[i]);
    }
    launch_words_fini(&commands);
    return text;
}

static void the_manuals_commands_are_split(void **state)
{
    (void)state;
    assert_string_equal(
        split("python model.py --dataset=/dat/partition1, python model.py "
              "--dataset=/dat/partition2",
              2),
        "python model.py --dataset=/dat/partition1|python model.py "
        "--dataset=/dat/partition2");
    assert_string_equal(split("nosuch a,nosuch b , nosuch c", 3),
                        "nosuch a|nosuch b|nosuch c");
    assert_string_equal(split("sh -c x, cat y", 2), "sh -c x|cat y");
    assert_string_equal(split("sh -c x,cat y", 2), "sh -c x|cat y");
    assert_string_equal(split("true,false", 2), "true|false");
    assert_string_equal(split("./a --x, ./b --y", 2), "./a --x|./b --y");
    assert_string_equal(split("a 1, /nowhere/b 2", 2), "a 1|/nowhere/b 2");
    assert_string_equal(split("a 1, ~/b 2, ../c", 3), "a 1|~/b 2|../c");
    assert_string_equal(split("a,/bin/sh", 2), "a|/bin/sh");
    assert_string_equal(split("X=1 p a, X=2 Y='b, c' p b", 2),
                        "X=1 p a|X=2 Y='b, c' p b");
}

static void other_commas_do_not_split(void **state)
{
    static const char *const whole[] = {
        "python t.py --layers 64,32",      "python t.py --files /a,/b",
        "python t.py --flags true,false",  "python t.py 'a, sh b'",
        "python t.py \"a, sh b\"",         "python t.py $(a, sh b)",
        "python t.py [1, sh]",             "python t.py {a, sh b}",
        "python t.py `a, sh b`",           "python t.py a\\, sh b",
        "sh a, sh b, sh c",                "sh a",
        "sh a,",                           ",sh a",
        "sh a, ",                          "",
        ",",                               "sh a, nosuchprogram b",
        "sh a, 'sh' b",                    "sh a, \"sh b",
        "sh a, (sh b",                     "sh a, data/x.csv",
        "sh a, -x",                        "sh a, X=1",
        "sh a, /",                         "sh a, /etc/passwd",
        "sh a, \\",                        "sh a\\",
    };

    (void)state;
    for (size_t i = 0; i < CLAIM_COUNT(whole); i++) {
        assert_string_equal(split(whole[i], 2), whole[i]);
    }
    assert_string_equal(split("sh a, sh b", 3), "sh a, sh b");
    assert_string_equal(split("sh a, sh b", 1), "sh a, sh b");
    assert_string_equal(split("sh a, sh b", 0), "sh a, sh b");
}

/* ---- a cluster for the rest --------------------------------------------- */

struct rig {
    struct cluster cluster;
    struct task_book book;
};

static void start(struct rig *rig, const char *ports)
{
    struct cluster *cluster = &rig->cluster;
    uint32_t host[3];

    assert_int_equal(cluster_init_local(cluster, 0, 0), PSD_OK);
    assert_int_equal(cluster_add_host(cluster, "m1", "ann", 0, &host[0]),
                     PSD_OK);
    assert_int_equal(cluster_add_host(cluster, "fe80::1%eth0", NULL, 0,
                                      &host[1]),
                     PSD_OK);
    assert_int_equal(cluster_add_host(cluster, "M1", NULL, 2222, &host[2]),
                     PSD_OK);
    assert_int_equal(cluster_add_worker(cluster, host[0], "0,1"), PSD_OK);
    assert_int_equal(cluster_add_worker(cluster, host[1], NULL), PSD_OK);
    assert_int_equal(cluster_add_worker(cluster, host[0], ""), PSD_OK);
    assert_int_equal(cluster_add_server(cluster, host[1]), PSD_OK);
    assert_int_equal(cluster_add_server(cluster, host[2]), PSD_OK);
    assert_int_equal(task_book_init(&rig->book, cluster, ports, error,
                                    sizeof(error)),
                     PSD_OK);
}

static void stop(struct rig *rig)
{
    task_book_fini(&rig->book);
    cluster_fini(&rig->cluster);
}

static void ports_count_up_on_each_host(void **state)
{
    struct rig rig;

    (void)state;
    start(&rig, NULL);
    assert_string_equal(rig.book.workers,
                        "m1:2222,[fe80::1%eth0]:2222,m1:2223");
    assert_string_equal(rig.book.servers, "[fe80::1%eth0]:2223,M1:2224");
    assert_string_equal(rig.book.master, "m1:2222");
    assert_string_equal(rig.book.old_master, "tcp://m1:5555");
    stop(&rig);
    start(&rig, "7000-7100");
    assert_string_equal(rig.book.workers,
                        "m1:7000,[fe80::1%eth0]:7000,m1:7001");
    stop(&rig);
    start(&rig, "0");
    assert_string_equal(rig.book.master, "m1:2222");
    rig.cluster.master = 1;
    task_book_fini(&rig.book);
    assert_int_equal(task_book_init(&rig.book, &rig.cluster, "65535", error,
                                    sizeof(error)),
                     PSD_EINVAL);
    assert_non_null(strstr(error, "ports from 65535 on"));
    assert_int_equal(task_book_init(&rig.book, &rig.cluster, NULL, error,
                                    sizeof(error)),
                     PSD_OK);
    assert_string_equal(rig.book.old_master, "tcp://[fe80::1%eth0]:5555");
    stop(&rig);
}

/* ---- placeholders ------------------------------------------------------- */

static const char *fill(const struct rig *rig, bool server, uint32_t index,
                        const char *text)
{
    static char kept[2000];
    struct task task = { .is_server = server, .index = index };
    char *out;

    assert_int_equal(task_fill(&rig->book, task, text, &out), PSD_OK);
    snprintf(kept, sizeof(kept), "%s", out);
    mem_free(out);
    return kept;
}

static void placeholders_are_filled_in(void **state)
{
    struct rig rig;

    (void)state;
    start(&rig, NULL);
    assert_string_equal(fill(&rig, false, 2, "{rank}/{size} {host}"),
                        "2/3 m1");
    assert_string_equal(fill(&rig, false, 1, "{job_name} {task_index}"),
                        "worker 1");
    assert_string_equal(fill(&rig, true, 1, "{job_name} {task_index} {host}"),
                        "ps 1 M1");
    assert_string_equal(fill(&rig, true, 1, "{rank}{size}"), "13");
    assert_string_equal(fill(&rig, false, 0, "--ps_hosts={ps_hosts}"),
                        "--ps_hosts=[fe80::1%eth0]:2223,M1:2224");
    assert_string_equal(fill(&rig, false, 0, "{worker_hosts}|{master}"),
                        "m1:2222,[fe80::1%eth0]:2222,m1:2223|m1:2222");
    stop(&rig);
}

static void other_braces_are_left_alone(void **state)
{
    static const char *const same[] = {
        "",          "{",        "}",         "{}",       "{unknown}",
        "${rank}",   "${x}",     "$",         "{ rank }", "{rank",
        "rank}",     "{RANK}",   "{{}}",      "{{x}}",    "awk '{print $1}'",
        "{\"a\":1}", "{rankx}",  "$${rank}",  "{{rank",   "a{1..3}b",
    };
    struct rig rig;

    (void)state;
    start(&rig, NULL);
    for (size_t i = 0; i < CLAIM_COUNT(same); i++) {
        assert_string_equal(fill(&rig, false, 1, same[i]), same[i]);
    }
    assert_string_equal(fill(&rig, false, 1, "{{rank}}"), "{rank}");
    assert_string_equal(fill(&rig, false, 1, "{{{rank}}}"), "{{rank}}");
    assert_string_equal(fill(&rig, false, 1, "{{rank}"), "{1");
    assert_string_equal(fill(&rig, false, 1, "{rank}}"), "1}");
    assert_string_equal(fill(&rig, false, 1, "{x{rank}}"), "{x1}");
    assert_string_equal(fill(&rig, false, 1, "$ {rank}"), "$ 1");
    stop(&rig);
}

static void roles_are_recognised(void **state)
{
    static const struct {
        char *text;
        bool roles;
    } commands[] = {
        { "python t.py", false },       { "t --job_name={job_name}", true },
        { "t {task_index}", true },     { "t {rank} {ps_hosts}", false },
        { "t {{job_name}}", false },    { "t ${job_name}", false },
        { "t {{{task_index}}", false }, { "t {job_name", false },
    };
    struct rig rig;

    (void)state;
    start(&rig, NULL);
    for (size_t i = 0; i < CLAIM_COUNT(commands); i++) {
        char *text[] = { "first", commands[i].text };
        struct launch_words words = { .count = 2, .words = text };

        assert_int_equal(task_has_roles(&rig.cluster, &words),
                         commands[i].roles);
        rig.cluster.roles = true;
        assert_true(task_has_roles(&rig.cluster, &words));
        rig.cluster.roles = false;
    }
    stop(&rig);
}

/* ---- commands ----------------------------------------------------------- */

static const char *command(const struct rig *rig, bool server, uint32_t index,
                           bool shell, char *first, char *second)
{
    static char kept[3000];
    struct task task = { .is_server = server, .index = index };
    char *text[] = { first, second };
    struct launch_words words = { .count = second == NULL ? 1 : 2,
                                  .words = text };
    struct launch_words out;
    size_t used = 0;

    assert_int_equal(task_command(&rig->book, task, &words, shell, &out, error,
                                  sizeof(error)),
                     PSD_OK);
    assert_null(out.words[out.count]);
    for (uint32_t i = 0; i < out.count; i++) {
        used += (size_t)snprintf(kept + used, sizeof(kept) - used, "%s%s",
                                 i == 0 ? "" : "|", out.words[i]);
    }
    launch_words_fini(&out);
    return kept;
}

static void every_word_is_filled_and_old_flags_follow(void **state)
{
    struct rig rig;

    (void)state;
    start(&rig, NULL);
    assert_string_equal(command(&rig, false, 1, false, "a{rank}", "{size}"),
                        "a1|3");
    assert_string_equal(command(&rig, true, 0, true, "x {job_name}", NULL),
                        "x ps");
    rig.cluster.old_flags = true;
    assert_string_equal(command(&rig, false, 1, false, "a", "b"),
                        "a|b|--distributed=true|--master_address="
                        "tcp://m1:5555|--client_id=1");
    assert_string_equal(command(&rig, false, 2, true, "a b \n", NULL),
                        "a b --distributed=true --master_address="
                        "tcp://m1:5555 --client_id=2");
    assert_string_equal(command(&rig, true, 0, true, "a b", NULL), "a b");
    stop(&rig);
}

static void a_word_that_becomes_too_long_is_named(void **state)
{
    struct rig rig;
    struct task task = { .index = 0 };
    char *text = mem_zalloc(LAUNCH_WORD_MAX + 1);
    struct launch_words words = { .count = 1, .words = &text };
    struct launch_words out;

    (void)state;
    start(&rig, NULL);
    memset(text, 'x', LAUNCH_WORD_MAX);
    memcpy(text + LAUNCH_WORD_MAX - 10, "{ps_hosts}", 10);
    assert_int_equal(task_command(&rig.book, task, &words, true, &out, error,
                                  sizeof(error)),
                     PSD_EINVAL);
    assert_non_null(strstr(error, "a word of the command is longer than"));
    mem_free(text);
    stop(&rig);
}

/* Whatever the hosts are called: what is filled in says nothing to a shell.
 * Brackets are patterns there, but only of IPv6 addresses. */
static void nothing_hostile_is_ever_filled_in(void **state)
{
    static const char *const names[] = {
        "a b",  "a\nb", "$(id)", "`id`", "a;id", "a'b", "a\"b", "-a",
        "a|b",  "a>b",  "a&b",   "a\\b", "~a",   "a*",  "a?",   "a#b",
        "a{b}", "{rank}", "a,b", "a=b",  "!a",   "(a)", "a\tb", "",
    };

    (void)state;
    for (size_t i = 0; i < CLAIM_COUNT(names); i++) {
        assert_int_equal(cluster_check_name(names[i], error, sizeof(error)),
                         PSD_EINVAL);
    }
    for (int c = 1; c < 256; c++) {
        struct rig rig;
        char name[] = { 'a', (char)c, 'b', '\0' };
        uint32_t host;

        if (cluster_check_name(name, error, sizeof(error)) != PSD_OK) {
            continue;
        }
        start(&rig, NULL);
        assert_int_equal(cluster_add_host(&rig.cluster, name, NULL, 0, &host),
                         PSD_OK);
        assert_int_equal(cluster_add_worker(&rig.cluster, host, NULL), PSD_OK);
        task_book_fini(&rig.book);
        assert_int_equal(task_book_init(&rig.book, &rig.cluster, NULL, error,
                                        sizeof(error)),
                         PSD_OK);
        assert_null(strpbrk(fill(&rig, false, 3,
                                 "{rank}{size}{host}{job_name}{task_index}"
                                 "{ps_hosts}{worker_hosts}{master}"),
                            " \t\n\r\"'`$\\;&|<>(){}*?#~=!^"));
        stop(&rig);
    }
}

/* ---- variables ---------------------------------------------------------- */

static const char *find(const struct launch_words *words, const char *name)
{
    size_t size = strlen(name);

    for (uint32_t i = 0; i < words->count; i++) {
        if (strncmp(words->words[i], name, size) == 0 &&
            words->words[i][size] == '=') {
            return words->words[i] + size + 1;
        }
    }
    return NULL;
}

static void a_process_finds_itself_in_its_variables(void **state)
{
    struct task task = { .index = 0 };
    struct launch_words words = { .count = 0 };
    struct rig rig;

    (void)state;
    start(&rig, NULL);
    assert_int_equal(task_variables(&rig.book, task, "my job", false, &words),
                     PSD_OK);
    assert_string_equal(find(&words, "PSD_HOST"), "m1");
    assert_string_equal(find(&words, "PSD_MASTER"), "m1:2222");
    assert_string_equal(find(&words, "JOB_NAME"), "my job");
    assert_string_equal(find(&words, "EXPERIMENT_ID"), "my job");
    assert_string_equal(find(&words, "CUDA_VISIBLE_DEVICES"), "0,1");
    assert_null(find(&words, "TF_CONFIG"));
    launch_words_fini(&words);
    task.index = 1;
    assert_int_equal(task_variables(&rig.book, task, "j", true, &words),
                     PSD_OK);
    assert_null(find(&words, "CUDA_VISIBLE_DEVICES"));
    launch_words_fini(&words);
    task.index = 2;
    assert_int_equal(task_variables(&rig.book, task, "j", true, &words),
                     PSD_OK);
    assert_string_equal(find(&words, "CUDA_VISIBLE_DEVICES"), "");
    launch_words_fini(&words);
    task = (struct task){ .is_server = true, .index = 0 };
    assert_int_equal(task_variables(&rig.book, task, "j", true, &words),
                     PSD_OK);
    assert_string_equal(find(&words, "CUDA_VISIBLE_DEVICES"), "");
    assert_string_equal(find(&words, "PSD_HOST"), "fe80::1%eth0");
    launch_words_fini(&words);
    stop(&rig);
}

static void tf_config_is(const struct rig *rig, struct task task,
                         const char *expected)
{
    struct launch_words words = { .count = 0 };
    json_t *json;

    assert_int_equal(task_variables(&rig->book, task, "j", true, &words),
                     PSD_OK);
    assert_string_equal(find(&words, "TF_CONFIG"), expected);
    json = json_loads(find(&words, "TF_CONFIG"), 0, NULL);
    assert_non_null(json);
    json_decref(json);
    launch_words_fini(&words);
}

static void tf_config_names_the_cluster_and_this_task(void **state)
{
    struct cluster cluster;
    struct rig rig;

    (void)state;
#define CLUSTER                                                      \
    "{\"cluster\":{\"master\":[\"m1:2222\"],"                        \
    "\"worker\":[\"[fe80::1%eth0]:2222\",\"m1:2223\"],"              \
    "\"ps\":[\"[fe80::1%eth0]:2223\",\"M1:2224\"]},\"task\":{\"type\":"
    start(&rig, NULL);
    tf_config_is(&rig, (struct task){ .index = 0 },
                 CLUSTER "\"master\",\"index\":0},\"environment\":\"cloud\"}");
    tf_config_is(&rig, (struct task){ .index = 2 },
                 CLUSTER "\"worker\",\"index\":1},\"environment\":\"cloud\"}");
    tf_config_is(&rig, (struct task){ .is_server = true, .index = 1 },
                 CLUSTER "\"ps\",\"index\":1},\"environment\":\"cloud\"}");
    stop(&rig);
    assert_int_equal(cluster_init_local(&cluster, 1, 0), PSD_OK);
    rig.cluster = cluster;
    assert_int_equal(task_book_init(&rig.book, &rig.cluster, NULL, error,
                                    sizeof(error)),
                     PSD_OK);
    tf_config_is(&rig, (struct task){ .index = 0 },
                 "{\"cluster\":{\"master\":[\"localhost:2222\"]},\"task\":"
                 "{\"type\":\"master\",\"index\":0},\"environment\":"
                 "\"cloud\"}");
    stop(&rig);
}

static void a_tf_config_that_no_process_may_have_is_left_out(void **state)
{
    struct launch_words words = { .count = 0 };
    struct rig rig;
    char name[200];

    (void)state;
    assert_int_equal(cluster_init_local(&rig.cluster, 0, 0), PSD_OK);
    memset(name, 'a', sizeof(name));
    for (int i = 0; i < WIRE_RANKS_MAX; i++) {
        uint32_t host;

        snprintf(name + 190, sizeof(name) - 190, "%d", i);
        assert_int_equal(cluster_add_host(&rig.cluster, name, NULL, 0, &host),
                         PSD_OK);
        assert_int_equal(cluster_add_worker(&rig.cluster, host, NULL), PSD_OK);
    }
    assert_int_equal(task_book_init(&rig.book, &rig.cluster, NULL, error,
                                    sizeof(error)),
                     PSD_OK);
    assert_int_equal(task_variables(&rig.book, (struct task){ .index = 9 },
                                    "j", true, &words),
                     PSD_OK);
    assert_null(find(&words, "TF_CONFIG"));
    assert_non_null(find(&words, "PSD_HOST"));
    launch_words_fini(&words);
    stop(&rig);
}

static void every_lack_of_memory_is_survived(void **state)
{
    struct rig rig;
    struct task task = { .index = 1 };
    char *text[] = { "a {rank}" };
    struct launch_words words = { .count = 1, .words = text };
    psd_status status = PSD_ENOMEM;
    long n = 0;

    (void)state;
    start(&rig, NULL);
    rig.cluster.old_flags = true;
    while (status != PSD_OK) {
        struct task_book book;
        struct launch_words out = { .count = 0 };
        struct launch_words parts = { .count = 0 };
        struct launch_words variables = { .count = 0 };

        mem_fail_after(++n);
        status = task_book_init(&book, &rig.cluster, NULL, error,
                                sizeof(error));
        if (status == PSD_OK) {
            status = task_command(&book, task, &words, true, &out, error,
                                  sizeof(error));
        }
        if (status == PSD_OK) {
            status = task_variables(&book, task, "j", true, &variables);
        }
        if (status == PSD_OK) {
            status = task_split("sh a, sh b", 2, &parts);
        }
        mem_fail_after(0);
        task_book_fini(&book);
        launch_words_fini(&out);
        launch_words_fini(&parts);
        launch_words_fini(&variables);
    }
    assert_true(n > 15);
    stop(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_manuals_commands_are_split),
        cmocka_unit_test(other_commas_do_not_split),
        cmocka_unit_test(ports_count_up_on_each_host),
        cmocka_unit_test(placeholders_are_filled_in),
        cmocka_unit_test(other_braces_are_left_alone),
        cmocka_unit_test(roles_are_recognised),
        cmocka_unit_test(every_word_is_filled_and_old_flags_follow),
        cmocka_unit_test(a_word_that_becomes_too_long_is_named),
        cmocka_unit_test(nothing_hostile_is_ever_filled_in),
        cmocka_unit_test(a_process_finds_itself_in_its_variables),
        cmocka_unit_test(tf_config_names_the_cluster_and_this_task),
        cmocka_unit_test(a_tf_config_that_no_process_may_have_is_left_out),
        cmocka_unit_test(every_lack_of_memory_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
