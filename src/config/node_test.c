/* node_test.c: the entries of worker_nodes and server_nodes. */
#include "config/config_rig.h"

static void entries_say_how_many_and_on_which_gpus(void **state)
{
    static const struct {
        const char *entries, *seats;
    } cases[] = {
        { "\"a\",\"a\",\"u@b:22\",\"[::1]:7\",\"::2\"",
          "a a u@b:22 [::1]:7 [::2]" },
        { "{\"host\":\"a\",\"slots\":2}", "a a" },
        { "{\"host\":\"a\",\"slots\":\"2\"}", "a a" },
        { "{\"host\":\"a\",\"slots\":4,\"gpus\":[0,1]}",
          "a(0) a(1) a(0) a(1)" },
        { "{\"host\":\"a\",\"slots\":2,\"gpus\":\"3, 1\"}", "a(3) a(1)" },
        { "{\"host\":\"a\",\"gpus\":[0,1,2]}", "a(0) a(1) a(2)" },
        { "{\"host\":\"a\",\"slots\":1,\"gpus\":[0,1]}", "a(0,1)" },
        { "{\"host\":\"a\",\"gpus\":[\"GPU-8a-1\",\"MIG-1/2\"]}",
          "a(GPU-8a-1) a(MIG-1/2)" },
        { "{\"host\":\"a\",\"gpus\":[]}", "a()" },
        { "{\"host\":\"a\",\"gpus\":\"\"}", "a()" },
        { "{\"host\":\"a\",\"slots\":2,\"gpus\":[]}", "a() a()" },
        { "{\"port\":2222,\"user\":\"v\",\"host\":\"a\"}", "v@a:2222" },
        { "{\"host\":\"v@a:2222\"}", "v@a:2222" },
    };
    struct read read;

    (void)state;
    for (size_t i = 0; i < CLAIM_COUNT(cases); i++) {
        char text[300];

        snprintf(text, sizeof(text),
                 "{\"worker_nodes\":[%s],\"server_nodes\":[\"s\","
                 "{\"host\":\"t\",\"slots\":2}]}",
                 cases[i].entries);
        parse(&read, text);
        assert_string_equal(seats(&read.cluster, false), cases[i].seats);
        assert_string_equal(seats(&read.cluster, true), "s t t");
        fini(&read);
    }
    parse(&read, "{\"username\":\"ann\",\"worker_nodes\":[\"a\",\"bob@b\"],"
                 "\"server_nodes\":[\"a\"]}");
    assert_string_equal(seats(&read.cluster, false), "ann@a bob@b");
    fini(&read);
}

static void nodes_are_checked(void **state)
{
    static const struct {
        const char *entry, *part;
    } cases[] = {
        { "1", "an entry of worker_nodes must be a host" },
        { "null", "an entry of worker_nodes must be a host" },
        { "\"\"", "worker_nodes: the host name is empty" },
        { "\"a b\"", "a blank in it" },
        { "\"-oProxyCommand=x\"", "begins with a dash" },
        { "\"$(id)\"", "special character" },
        { "\"a\\nb\"", "control character" },
        { "\"m\\u00fcnchen\"", "not ASCII" },
        { "\"a:99999\"", "the port is '99999'" },
        { "{}", "an entry of worker_nodes has no \"host\"" },
        { "{\"hots\":\"a\"}", "did you mean \"host\"?" },
        { "{\"x\":1}", "there are host, slots, gpus, user, port" },
        { "{\"host\":1}", "host is a number" },
        { "{\"host\":\"a\",\"slots\":0}", "slots is '0', it must be a number "
                                          "in 1..1024" },
        { "{\"host\":\"a\",\"slots\":1025}", "slots is '1025'" },
        { "{\"host\":\"a\",\"slots\":2.5}", "slots is a number, it must be a "
                                            "whole number" },
        { "{\"host\":\"a\",\"slots\":\"x\"}", "slots is 'x'" },
        { "{\"host\":\"a\",\"slots\":[]}", "slots is a list" },
        { "{\"host\":\"a\",\"port\":0}", "port is '0'" },
        { "{\"host\":\"a\",\"port\":65536}", "port is '65536'" },
        { "{\"host\":\"a\",\"user\":\"-l\"}", "begins with a dash" },
        { "{\"host\":\"a\",\"user\":\"\"}", "user name is empty" },
        { "{\"host\":\"a\",\"user\":7}", "user is a number" },
        { "{\"host\":\"u@a\",\"user\":\"v\"}", "the user is given twice" },
        { "{\"host\":\"a:22\",\"port\":23}", "the port is given twice" },
        { "{\"host\":\"a\",\"gpus\":0}", "gpus is a number" },
        { "{\"host\":\"a\",\"gpus\":[-1]}", "gpus has '-1'" },
        { "{\"host\":\"a\",\"gpus\":[0.5]}", "entry of gpus is a number" },
        { "{\"host\":\"a\",\"gpus\":\"0,,1\"}", "gpus has ''" },
        { "{\"host\":\"a\",\"gpus\":\"0,\"}", "gpus ends with a comma" },
        { "{\"host\":\"a\",\"gpus\":\"$(id)\"}", "gpus has '$(id)'" },
        { "{\"host\":\"a\",\"gpus\":[\"0,1\"]}", "gpus has '0,1'" },
    };

    (void)state;
    for (size_t i = 0; i < CLAIM_COUNT(cases); i++) {
        char text[300];

        snprintf(text, sizeof(text),
                 "{\"server_nodes\":[\"a\"],\"worker_nodes\":[\"a\",\n %s]}",
                 cases[i].entry);
        refused(text, cases[i].part);
        assert_non_null(strstr(error, "c.json:2:"));
    }
    refused("{\"worker_nodes\":\"a\",\"server_nodes\":[\"a\"]}",
            "c.json:1:17: worker_nodes is a text, it must be a list of hosts");
    refused("{\"worker_nodes\":[\"a\"],\"server_nodes\":[]}",
            "server_nodes is empty; name the hosts of worker_nodes again");
    refused("{\"worker_nodes\":[\"a\"],\"server_nodes\":[{\"host\":\"a\","
            "\"gpus\":[0]}]}",
            "a server uses no gpus");
    refused("{\"worker_nodes\":[{\"host\":\"a\",\"slots\":1000},\n{\"host\":"
            "\"b\",\"slots\":25}],\"server_nodes\":[\"a\"]}",
            "c.json:2:1: worker_nodes has more than 1024 workers");
    refused("{\"worker_nodes\":[\"a\"],\"server_nodes\":[{\"host\":\"a\","
            "\"slots\":1000},\n{\"host\":\"b\",\"slots\":25}]}",
            "server_nodes has more than 1024 servers");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_say_how_many_and_on_which_gpus),
        cmocka_unit_test(nodes_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
