/* config_test.c: cluster files: what they may say, and what is said about
 * those that say something else. */
#define _GNU_SOURCE
#include <sys/stat.h>

#include "base/mem.h"
#include "config/config_rig.h"

static char folder[] = "/tmp/psd_config.XXXXXX";
static char path[100];

/* ---- what is read ------------------------------------------------------- */

static void the_manuals_file_is_read(void **state)
{
    struct read read;

    (void)state;
    parse(&read, "{\n"
                 "  \"virtualenv\": \"/opt/sandbox\",\n"
                 "  \"username\": \"ubuntu\",\n"
                 "  \"master_node\": \"localhost\",\n"
                 "  \"worker_nodes\": [\n"
                 "    \"192.168.1.11\",\n"
                 "    \"192.168.1.15\"\n"
                 "  ],\n"
                 "  \"server_nodes\": [\n"
                 "    \"192.168.1.70\"\n"
                 "  ]\n"
                 "}\n");
    assert_string_equal(seats(&read.cluster, false),
                        "ubuntu@192.168.1.11 ubuntu@192.168.1.15");
    assert_string_equal(seats(&read.cluster, true), "ubuntu@192.168.1.70");
    assert_string_equal(read.cluster.virtualenv, "/opt/sandbox");
    assert_string_equal(read.cluster.hosts[read.cluster.master].name,
                        "localhost");
    assert_null(read.cluster.pem_file);
    assert_false(read.cluster.roles);
    assert_false(read.cluster.old_flags);
    assert_string_equal(read.cluster.origin, "c.json");
    fini(&read);
    parse(&read, "{" NODES "}");
    assert_int_equal(read.cluster.master, CLUSTER_HERE);
    assert_null(read.cluster.hosts[0].user);
    assert_int_equal(read.cluster.host_count, 2);
    fini(&read);
}

static void options_come_in_every_type(void **state)
{
    struct read read;

    (void)state;
    parse(&read, "{" NODES ",\"$schema\":\"x\",\"digest\":\"off\","
                 "\"block_size\":8192,\"checksum\":true,\"ports\":7000,"
                 "\"tee\":0,\"grace\":2.5,\"pass\":[\"A=1\",\"B\"]}");
    assert_string_equal(read.settings.job.digest, "off");
    assert_int_equal(read.settings.job.block_size, 8192);
    assert_true(read.settings.job.checksum);
    assert_string_equal(read.settings.job.ports, "7000");
    assert_string_equal(read.settings.tee, "0");
    assert_true(read.settings.grace == 2.5);
    assert_int_equal(read.settings.pass.count, 2);
    assert_string_equal(read.settings.pass.values[0], "A=1");
    fini(&read);
    parse(&read, "{" NODES ",\"block-size\":\"64K\",\"checksum\":\"1\","
                 "\"ports\":\"7000-7100\",\"grace\":\"7\",\"pass\":\"C\"}");
    assert_int_equal(read.settings.job.block_size, 65536);
    assert_true(read.settings.job.checksum);
    assert_string_equal(read.settings.job.ports, "7000-7100");
    assert_true(read.settings.grace == 7);
    assert_int_equal(read.settings.pass.count, 1);
    assert_string_equal(read.settings.pass.values[0], "C");
    fini(&read);
    parse(&read, "{" NODES ",\"roles\":true,\"poseidon_flags\":1,"
                 "\"interface\":\"eth0.7\",\"checksum\":false,"
                 "\"commands\":[\"python a 'b'\",\"sh, x\"]}");
    assert_true(read.cluster.roles);
    assert_true(read.cluster.old_flags);
    assert_false(read.settings.job.checksum);
    assert_string_equal(read.cluster.interface, "eth0.7");
    assert_int_equal(read.cluster.commands.count, 2);
    assert_string_equal(read.cluster.commands.words[1], "sh, x");
    assert_null(read.cluster.commands.words[2]);
    fini(&read);
}

static void the_command_line_beats_the_file(void **state)
{
    static const char text[] =
        "{\n\"digest\":\"off\",\n\"grace\":7,\n\"pass\":[\"A\"],\n" NODES "}";
    struct document document = { .path = "c.json",
                                 .text = text,
                                 .size = sizeof(text) - 1 };
    char *argv[] = { "psd_run", "--digest", "step", "-x", "B" };
    struct read read = { .cluster.workers = 0 };
    int next;

    (void)state;
    assert_int_equal(option_defaults(rows, &read.settings), PSD_OK);
    assert_int_equal(option_parse(rows, &read.settings, 5, argv, &next, error,
                                  sizeof(error)),
                     PSD_OK);
    option_trace(rows, 5, argv, read.sources);
    assert_int_equal(config_parse(&document, rows, &read.settings,
                                  read.sources, &read.cluster, error,
                                  sizeof(error)),
                     PSD_OK);
    assert_string_equal(read.settings.job.digest, "step");
    assert_int_equal(read.sources[0].origin, OPTION_FROM_WORDS);
    assert_true(read.settings.grace == 7);
    assert_int_equal(read.sources[5].origin, OPTION_FROM_FILE);
    assert_string_equal(read.sources[5].file, "c.json");
    assert_int_equal(read.sources[5].line, 3);
    assert_int_equal(read.settings.pass.count, 1);
    assert_string_equal(read.settings.pass.values[0], "B");
    assert_int_equal(read.sources[6].origin, OPTION_FROM_DEFAULT);
    fini(&read);
}

static void the_cluster_is_printed_with_its_lines(void **state)
{
    struct read read;
    char text[4096] = "";
    FILE *file = fmemopen(text, sizeof(text), "w");

    (void)state;
    assert_non_null(file);
    parse(&read, "{\n\"worker_nodes\": [\"a\", \"u@b\", \"a\"],\n"
                 "\"roles\": true,\n\"server_nodes\": [\"b\"]}");
    config_print(&read.cluster, file);
    fclose(file);
    fini(&read);
    assert_string_equal(
        text,
        "  pem_file         -                                default\n"
        "  worker_nodes     3 on a (2), u@b                  c.json:2\n"
        "  server_nodes     1 on b                           c.json:4\n"
        "  master_node      this machine                     default\n"
        "  virtualenv       -                                default\n"
        "  interface        -                                default\n"
        "  roles            1                                c.json:3\n"
        "  poseidon_flags   0                                default\n"
        "  commands         -                                default\n");
}

/* ---- what is refused ---------------------------------------------------- */

static void syntax_errors_have_their_place(void **state)
{
    (void)state;
    refused("", "c.json:1:1: no valid JSON: ");
    refused("{", "c.json:1:2: no valid JSON: ");
    refused("{\n \"a\": [1,\n 2}\n", "c.json:3:3: no valid JSON: ']' expected "
                                     "near '}'");
    refused("{\n\"worker_nodes\":[\"a\",],", "c.json:2:21: no valid JSON: "
                                             "unexpected token near ']'; "
                                             "remove the comma before it");
    refused("{\"a\":1,\n}", "remove the comma before it");
    refused("{\n// no\n}", "c.json:2:1: no valid JSON: string or '}' expected "
                           "near '/'; JSON knows no comments");
    refused("{'a':1}", "c.json:1:2:");
    refused("{'a':1}", "texts are in double quotes");
    refused("{\"a\":tru}", "c.json:1:6: ");
    refused("{\"a\":1} x", "c.json:1:9: ");
    refused("{\"a\":\"\\u0000\"}", "\\u0000 is not allowed");
    refused("{\"a\":\"\x01\"}", "control character");
    refused("{\"a\":\"\xff\"}", "c.json:1");
    refused_bytes("{\"a\0\":1}", 8, "c.json:1:4: a NUL character");
    refused_bytes("\0", 1, "c.json:1:1: a NUL character");
    refused("{\n\"grace\": 1,\n\"grace\": 2, " NODES "}", "c.json:3:");
    refused("{\"grace\": 1,\"grace\": 2}", "duplicate object key");
    refused("{\"grace\": 99999999999999999999999}", "too big integer");
}

static void the_whole_must_be_an_object_with_its_keys(void **state)
{
    (void)state;
    refused("[]", "c.json:1:1: the file is a list, it must be an object");
    refused("{}", "c.json:1:1: worker_nodes is missing");
    refused("\n {\"worker_nodes\":[\"a\"]}", "c.json:2:2: server_nodes is "
                                             "missing");
    refused("{\n  \"wroker_nodes\": [\"a\"]\n}",
            "c.json:2:3: unknown key \"wroker_nodes\"; did you mean "
            "\"worker_nodes\"?");
    refused("{\"workers\":2," NODES "}", "c.json:1:2: unknown key \"workers\"");
    refused("{\"blok_size\":2," NODES "}", "did you mean \"block-size\"?");
    refused("{\"frobnicate\":2," NODES "}",
            "unknown key \"frobnicate\"; psd-cluster(5) lists all");
    refused("{" NODES ",\n\"worker-nodes\":[\"a\"]}",
            "c.json:2:1: unknown key \"worker-nodes\"; did you mean "
            "\"worker_nodes\"?");
    refused("{" NODES ",\n\"block-size\":8192,\"block_size\":8192}",
            "c.json:2:19: block-size is there twice");
    refused("{\"\\u001b[31m\":1}", "unknown key \"?[31m\"");
    refused("{\"\":1}", "unknown key \"\"");
}

static void options_are_checked(void **state)
{
    (void)state;
    refused("{" NODES ",\n \"digest\": \"rotat\"}",
            "c.json:2:12: digest is 'rotat', it must be one of "
            "step|rotate|off; did you mean rotate?");
    refused("{\"digest\":\"off\",\"block_size\":1," NODES "}",
            "block_size is '1', it must be in 4096..67108864");
    refused("{\"block_size\":8192.5," NODES "}", "block_size is '8192.5'");
    refused("{\"block_size\":-8192," NODES "}", "block_size is '-8192'");
    refused("{\"grace\":\"x\"," NODES "}", "grace is 'x', it must be in");
    refused("{\"grace\":[1]," NODES "}",
            "grace is a list, it must be a text or a number");
    refused("{\"grace\":null," NODES "}",
            "grace is null, it must be a text or a number; or leave the key "
            "out");
    refused("{\"checksum\":2," NODES "}",
            "checksum is a number, it must be true or false");
    refused("{\"checksum\":\"maybe\"," NODES "}", "true or false");
    refused("{\"ports\":\"7-x\"," NODES "}", "ports is '7-x', it must be a");
    refused("{\"ports\":\"9-7\"," NODES "}", "ports is '9-7'");
    refused("{\"pass\":[\"A\",\n1]," NODES "}",
            "c.json:2:1: pass is a number, it must be a list of texts");
    refused("{\"pass\":{}," NODES "}", "pass is an object");
    refused("{\"digest\":\"off\",\"pass\":[\"A\"],\"worker_nodes\":[]}",
            "worker_nodes is empty; name one host");
}

static void other_keys_are_checked(void **state)
{
    static const struct {
        const char *pair, *part;
    } cases[] = {
        { "\"username\":\"-l\"", "username: the user name '-l' begins" },
        { "\"username\":\"a b\"", "a blank in it" },
        { "\"username\":\"D\\\\u\"", "special character" },
        { "\"username\":\"\"", "username is empty" },
        { "\"username\":1", "username is a number" },
        { "\"master_node\":[\"a\"]", "master_node is a list" },
        { "\"master_node\":\"-a\"", "master_node: the host name '-a'" },
        { "\"pem_file\":\"/nowhere/k.pem\"", "pem_file: cannot read "
                                             "'/nowhere/k.pem': No such" },
        { "\"pem_file\":\"/tmp\"", "cannot read '/tmp': Is a directory" },
        { "\"pem_file\":\"\"", "pem_file is empty" },
        { "\"pem_file\":\"a\\nb\"", "pem_file has a control character" },
        { "\"pem_file\":true", "pem_file is true" },
        { "\"virtualenv\":\"venv\"", "must begin with / or ~/" },
        { "\"virtualenv\":\"~ann/venv\"", "must begin with / or ~/" },
        { "\"virtualenv\":\"/a\\u007f\"", "control character" },
        { "\"virtualenv\":null", "virtualenv is null" },
        { "\"interface\":\"a b\"", "interface is 'a b'" },
        { "\"interface\":\"-i\"", "interface is '-i'" },
        { "\"interface\":\"abcdefghijklmnop\"", "interface is 'abcdef" },
        { "\"roles\":\"yes\"", "roles must be true or false" },
        { "\"poseidon_flags\":2", "poseidon_flags must be true or false" },
        { "\"commands\":\"a\"", "commands is a text" },
        { "\"commands\":[\"a\"]", "commands has 1 entries for 2 workers" },
        { "\"commands\":[\"a\",\" \"]", "must be a command as text" },
        { "\"commands\":[\"a\",1]", "must be a command as text" },
        { "\"$schema\":1", "$schema is a number" },
    };

    (void)state;
    for (size_t i = 0; i < CLAIM_COUNT(cases); i++) {
        char text[300];

        snprintf(text, sizeof(text), "{" NODES ",\n%s}", cases[i].pair);
        refused(text, cases[i].part);
        assert_non_null(strstr(error, "c.json:2:"));
    }
}

/* Texts that may hold anything are kept as they are: who uses them does not
 * hand them to a shell. */
static void hostile_texts_stay_texts(void **state)
{
    struct read read;

    (void)state;
    parse(&read, "{" NODES ",\"virtualenv\":\"/a b/$(id)/`x`'\\\"\","
                 "\"commands\":[\"echo $(id); x 'y'\",\"-c\\nz\"]}");
    assert_string_equal(read.cluster.virtualenv, "/a b/$(id)/`x`'\"");
    assert_string_equal(read.cluster.commands.words[0], "echo $(id); x 'y'");
    assert_string_equal(read.cluster.commands.words[1], "-c\nz");
    fini(&read);
}

/* ---- files -------------------------------------------------------------- */

static void write_file(const char *name, const char *text)
{
    char file_path[200];
    FILE *file;

    snprintf(file_path, sizeof(file_path), "%s/%s", folder, name);
    file = fopen(file_path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void a_pem_file_is_found_and_gives_the_user(void **state)
{
    static const char *const texts[] = { "k.pem", "%s/k.pem", "~/k.pem" };
    char pem[200];

    (void)state;
    write_file("k.pem", "key\n");
    setenv("HOME", folder, 1);
    snprintf(pem, sizeof(pem), "%s/k.pem", folder);
    for (size_t i = 0; i < CLAIM_COUNT(texts); i++) {
        struct read read = { .cluster.workers = 0 };
        char name[150];
        char text[400];

        snprintf(name, sizeof(name), i == 1 ? "%s/k.pem" : "%s",
                 i == 1 ? folder : texts[i]);
        snprintf(text, sizeof(text), "\xef\xbb\xbf{\"pem_file\":\"%s\"," NODES
                 "}", name);
        write_file("c.json", text);
        assert_int_equal(option_defaults(rows, &read.settings), PSD_OK);
        if (config_read(path, rows, &read.settings, NULL, &read.cluster, error,
                        sizeof(error)) != PSD_OK) {
            fail_msg("%s", error);
        }
        assert_string_equal(read.cluster.pem_file, pem);
        assert_string_equal(read.cluster.hosts[0].user, "ubuntu");
        fini(&read);
    }
    unlink(pem);
    write_file("c.json", "{\"username\":\"\"}");
}

static void files_that_cannot_be_read_are_named(void **state)
{
    struct read read = { .cluster.workers = 77 };

    (void)state;
    assert_int_equal(config_read("/nowhere/c.json", rows, &read.settings, NULL,
                                 &read.cluster, error, sizeof(error)),
                     PSD_EINVAL);
    assert_string_equal(error, "cannot read /nowhere/c.json: No such file or "
                               "directory");
    assert_int_equal(config_read(folder, rows, &read.settings, NULL,
                                 &read.cluster, error, sizeof(error)),
                     PSD_EINVAL);
    assert_non_null(strstr(error, "is a folder"));
    assert_int_equal(read.cluster.workers, 77);
}

static void every_lack_of_memory_is_survived(void **state)
{
    static const char text[] =
        "{\"worker_nodes\":[{\"host\":\"a\",\"gpus\":[0,1]},\"u@b\"],"
        "\"server_nodes\":[\"a\"],\"commands\":[\"x\",\"y\",\"z\"],"
        "\"virtualenv\":\"/v\",\"pass\":[\"A\",\"B\"],\"digest\":\"off\"}";
    struct read read;
    psd_status status = PSD_ENOMEM;
    long n = 0;

    (void)state;
    while (status != PSD_OK) {
        mem_fail_after(++n);
        status = parse_bytes(&read, text, sizeof(text) - 1);
        mem_fail_after(0);
        if (status != PSD_OK) {
            assert_int_equal(status, PSD_ENOMEM);
            assert_string_equal(read.settings.job.digest, "rotate");
            assert_int_equal(read.settings.pass.count, 0);
        }
    }
    assert_true(n > 40);
    assert_string_equal(read.settings.job.digest, "off");
    fini(&read);
}

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    snprintf(path, sizeof(path), "%s/c.json", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_manuals_file_is_read),
        cmocka_unit_test(options_come_in_every_type),
        cmocka_unit_test(the_command_line_beats_the_file),
        cmocka_unit_test(the_cluster_is_printed_with_its_lines),
        cmocka_unit_test(syntax_errors_have_their_place),
        cmocka_unit_test(the_whole_must_be_an_object_with_its_keys),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(other_keys_are_checked),
        cmocka_unit_test(hostile_texts_stay_texts),
        cmocka_unit_test(a_pem_file_is_found_and_gives_the_user),
        cmocka_unit_test(files_that_cannot_be_read_are_named),
        cmocka_unit_test(every_lack_of_memory_is_survived),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
