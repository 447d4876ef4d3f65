/* cluster_test.c: hosts by name, which names there may be, and this machine. */
#include "base/claim.h"
#include "base/mem.h"
#include "config/cluster.h"

static char error[300];

struct host {
    char user[CLUSTER_NAME_MAX];
    char name[CLUSTER_NAME_MAX];
    uint16_t port;
};

static psd_status parse(const char *text, struct host *host)
{
    *host = (struct host){ .port = 7 };
    error[0] = '\0';
    return cluster_parse_host(text, host->user, sizeof(host->user), host->name,
                              sizeof(host->name), &host->port, error,
                              sizeof(error));
}

static void every_form_of_a_host_is_parsed(void **state)
{
    static const struct {
        const char *text, *user, *name;
        uint16_t port;
    } good[] = {
        { "node1", "", "node1", 0 },
        { "ann@node1", "ann", "node1", 0 },
        { "node1:2222", "", "node1", 2222 },
        { "ann.b-c_d+e@n.example.org:1", "ann.b-c_d+e", "n.example.org", 1 },
        { "10.0.0.1", "", "10.0.0.1", 0 },
        { "10.0.0.1:65535", "", "10.0.0.1", 65535 },
        { "::1", "", "::1", 0 },
        { "[::1]", "", "::1", 0 },
        { "[::1]:22", "", "::1", 22 },
        { "fe80::1%eth0", "", "fe80::1%eth0", 0 },
        { "u@[fe80::1%eth0]:22", "u", "fe80::1%eth0", 22 },
        { "u@2001:db8::7", "u", "2001:db8::7", 0 },
        { "a_b", "", "a_b", 0 },
        { "1", "", "1", 0 },
    };
    struct host host;

    (void)state;
    for (size_t i = 0; i < CLAIM_COUNT(good); i++) {
        if (parse(good[i].text, &host) != PSD_OK) {
            fail_msg("'%s': %s", good[i].text, error);
        }
        assert_string_equal(host.user, good[i].user);
        assert_string_equal(host.name, good[i].name);
        assert_int_equal(host.port, good[i].port);
    }
}

static void hostile_names_are_refused(void **state)
{
    static const struct {
        const char *text, *part;
    } bad[] = {
        { "", "host name is empty" },
        { "@a", "user name is empty" },
        { "a@", "host name is empty" },
        { ":22", "host name is empty" },
        { "-oProxyCommand=x", "begins with a dash" },
        { "-a", "begins with a dash" },
        { "a@-b", "begins with a dash" },
        { "-l@b", "begins with a dash" },
        { "[-a::1]", "begins with a dash" },
        { "a b", "a blank" },
        { "a\tb", "a control character" },
        { "a\nb", "a control character" },
        { "a\x7f", "a control character" },
        { "$(reboot)", "a special character" },
        { "`id`", "a special character" },
        { "a;id", "a special character" },
        { "a'b", "a special character" },
        { "a\"b", "a special character" },
        { "a\\b", "a special character" },
        { "a&b", "a special character" },
        { "a*", "a special character" },
        { "~a", "a special character" },
        { "a/b", "a special character" },
        { "a,b", "a special character" },
        { "$x@a", "user name '$x'" },
        { "A\\b@a", "a special character" },
        { "a:b@c", "a special character" },
        { "m\xc3\xbcnchen", "not ASCII" },
        { "\xff", "not ASCII" },
        { "a:0", "the port is '0'" },
        { "a:65536", "the port is" },
        { "a:99999999999", "the port is" },
        { "a:", "the port is ''" },
        { "a:22x", "the port is '22x'" },
        { "a:-1", "the port is" },
        { "a: 1", "the port is" },
        { "[::1]22", "not closed" },
        { "[::1", "not closed" },
        { "[a]", "no IPv6 address" },
        { "[10.0.0.1]:22", "no IPv6 address" },
        { "::g", "no IPv6 address" },
        { "1:2:3", "no IPv6 address" },
        { "::1%", "no IPv6 address" },
        { "a%eth0", "no IPv6 address" },
        { "::1%a:b", "no IPv6 address" },
        { "10.0.0.256", "no IPv4 address" },
        { "10..0.1", "no IPv4 address" },
    };
    struct host host;

    (void)state;
    for (size_t i = 0; i < CLAIM_COUNT(bad); i++) {
        if (parse(bad[i].text, &host) != PSD_EINVAL) {
            fail_msg("'%s' is taken for a host", bad[i].text);
        }
        assert_int_equal(host.port, 7);
        if (strstr(error, bad[i].part) == NULL) {
            fail_msg("'%s': '%s' is not in '%s'", bad[i].text, bad[i].part,
                     error);
        }
        for (const char *c = error; *c != '\0'; c++) {
            assert_in_range(*c, ' ', '~');
        }
    }
}

static void names_that_are_too_long_are_refused(void **state)
{
    char text[2000];
    struct host host;

    (void)state;
    memset(text, 'a', sizeof(text));
    text[CLUSTER_NAME_MAX - 1] = '\0';
    assert_int_equal(parse(text, &host), PSD_OK);
    text[CLUSTER_NAME_MAX - 1] = 'a';
    text[CLUSTER_NAME_MAX] = '\0';
    assert_int_equal(parse(text, &host), PSD_EINVAL);
    assert_non_null(strstr(error, "longer than 255"));
    text[CLUSTER_NAME_MAX] = '@';
    text[CLUSTER_NAME_MAX + 2] = '\0';
    assert_int_equal(parse(text, &host), PSD_EINVAL);
    assert_non_null(strstr(error, "longer than 255"));
    text[CLUSTER_NAME_MAX] = 'a';
    text[CLUSTER_NAME_MAX + 2] = 'a';
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(parse(text, &host), PSD_EINVAL);
}

static void a_host_is_one_however_often_it_is_named(void **state)
{
    struct cluster cluster;
    uint32_t a;
    uint32_t b;

    (void)state;
    assert_int_equal(cluster_init_local(&cluster, 0, 0), PSD_OK);
    assert_int_equal(cluster_add_host(&cluster, "a", NULL, 0, &a), PSD_OK);
    assert_int_equal(cluster_add_host(&cluster, "b", NULL, 0, &b), PSD_OK);
    assert_int_equal(b, 1);
    assert_int_equal(cluster_add_host(&cluster, "A", NULL, 0, &b), PSD_OK);
    assert_int_equal(b, a);
    assert_int_equal(cluster_add_host(&cluster, "a", "ann", 0, &b), PSD_OK);
    assert_int_equal(b, 2);
    assert_int_equal(cluster_add_host(&cluster, "a", "ann", 0, &b), PSD_OK);
    assert_int_equal(b, 2);
    assert_int_equal(cluster_add_host(&cluster, "a", "ann", 22, &b), PSD_OK);
    assert_int_equal(b, 3);
    assert_int_equal(cluster_add_worker(&cluster, a, NULL), PSD_OK);
    assert_int_equal(cluster_add_worker(&cluster, b, "0,1"), PSD_OK);
    assert_int_equal(cluster_add_server(&cluster, b), PSD_OK);
    assert_int_equal(cluster.workers, 2);
    assert_int_equal(cluster.servers, 1);
    assert_string_equal(cluster.worker_seats[1].gpus, "0,1");
    cluster_fini(&cluster);
    cluster_fini(&cluster);
}

static void hosts_are_bounded(void **state)
{
    struct cluster cluster;
    uint32_t index = 0;
    char name[16];

    (void)state;
    assert_int_equal(cluster_init_local(&cluster, 0, 0), PSD_OK);
    for (int i = 0; i < CLUSTER_HOSTS_MAX; i++) {
        snprintf(name, sizeof(name), "n%d", i);
        assert_int_equal(cluster_add_host(&cluster, name, NULL, 0, &index),
                         PSD_OK);
    }
    assert_int_equal(cluster_add_host(&cluster, "more", NULL, 0, &index),
                     PSD_EINVAL);
    assert_int_equal(cluster_add_host(&cluster, "n7", NULL, 0, &index),
                     PSD_OK);
    assert_int_equal(index, 7);
    cluster_fini(&cluster);
}

static void hosts_are_written_as_they_are_parsed(void **state)
{
    static const char *const texts[] = { "a", "u@a", "a:22", "u@[::1]:22",
                                         "[fe80::1%eth0]" };

    (void)state;
    for (size_t i = 0; i < CLAIM_COUNT(texts); i++) {
        struct host host;
        struct cluster_host one = { .name = host.name };
        char text[100];

        assert_int_equal(parse(texts[i], &host), PSD_OK);
        one.user = host.user[0] == '\0' ? NULL : host.user;
        one.port = host.port;
        cluster_host_text(&one, text, sizeof(text));
        assert_string_equal(text, texts[i]);
    }
}

static void this_machine_is_known(void **state)
{
    char name[256] = "";

    (void)state;
    assert_true(cluster_is_local("localhost"));
    assert_true(cluster_is_local("LocalHost"));
    assert_true(cluster_is_local("127.0.0.1"));
    assert_true(cluster_is_local("127.0.1.1"));
    assert_true(cluster_is_local("::1"));
    assert_true(cluster_is_local("0.0.0.0"));
    assert_true(cluster_is_local("::ffff:127.0.0.1"));
    assert_int_equal(gethostname(name, sizeof(name) - 1), 0);
    assert_true(cluster_is_local(name));
    assert_false(cluster_is_local("203.0.113.1")); /* for examples only */
    assert_false(cluster_is_local("2001:db8::1"));
}

static void add(struct cluster *cluster, const char *text, bool server)
{
    struct host host;
    uint32_t index;

    assert_int_equal(parse(text, &host), PSD_OK);
    assert_int_equal(cluster_add_host(cluster, host.name,
                                      host.user[0] ? host.user : NULL,
                                      host.port, &index),
                     PSD_OK);
    assert_int_equal(server ? cluster_add_server(cluster, index)
                            : cluster_add_worker(cluster, index, NULL),
                     PSD_OK);
}

static void settling_joins_what_is_this_machine(void **state)
{
    struct cluster cluster;

    (void)state;
    assert_int_equal(cluster_init_local(&cluster, 0, 0), PSD_OK);
    add(&cluster, "203.0.113.1", false);
    add(&cluster, "localhost", false);
    add(&cluster, "u@127.0.0.1", false);
    add(&cluster, "localhost:2222", false); /* a tunnel */
    add(&cluster, "203.0.113.2", true);
    add(&cluster, "::1", true);
    assert_int_equal(cluster_add_host(&cluster, "127.0.0.7", NULL, 0,
                                      &cluster.master),
                     PSD_OK);
    assert_int_equal(cluster.host_count, 7);
    assert_int_equal(cluster_settle(&cluster), PSD_OK);
    assert_int_equal(cluster.host_count, 4);
    assert_int_equal(cluster.master, CLUSTER_HERE);
    assert_string_equal(cluster.hosts[0].name, "203.0.113.1");
    assert_false(cluster.hosts[0].local);
    assert_string_equal(cluster.hosts[1].name, "localhost");
    assert_true(cluster.hosts[1].local);
    assert_int_equal(cluster.hosts[2].port, 2222);
    assert_false(cluster.hosts[2].local);
    assert_string_equal(cluster.hosts[3].name, "203.0.113.2");
    assert_int_equal(cluster.worker_seats[0].host, 0);
    assert_int_equal(cluster.worker_seats[1].host, 1);
    assert_int_equal(cluster.worker_seats[2].host, 1);
    assert_int_equal(cluster.worker_seats[3].host, 2);
    assert_int_equal(cluster.server_seats[0].host, 3);
    assert_int_equal(cluster.server_seats[1].host, 1);
    assert_int_equal(cluster_settle(&cluster), PSD_OK);
    assert_int_equal(cluster.host_count, 4);
    cluster_fini(&cluster);
}

static void a_master_that_nobody_else_sits_on_stays_or_goes(void **state)
{
    struct cluster cluster;

    (void)state;
    assert_int_equal(cluster_init_local(&cluster, 0, 0), PSD_OK);
    add(&cluster, "203.0.113.1", false);
    assert_int_equal(cluster_add_host(&cluster, "203.0.113.9", NULL, 0,
                                      &cluster.master),
                     PSD_OK);
    assert_int_equal(cluster_settle(&cluster), PSD_OK);
    assert_int_equal(cluster.host_count, 2);
    assert_int_equal(cluster.master, 1);
    cluster_fini(&cluster);
    assert_int_equal(cluster_init_local(&cluster, 0, 0), PSD_OK);
    assert_int_equal(cluster_add_host(&cluster, "localhost", NULL, 0,
                                      &cluster.master),
                     PSD_OK);
    add(&cluster, "203.0.113.1", false);
    assert_int_equal(cluster_settle(&cluster), PSD_OK);
    assert_int_equal(cluster.host_count, 1);
    assert_int_equal(cluster.worker_seats[0].host, 0);
    assert_string_equal(cluster.hosts[0].name, "203.0.113.1");
    cluster_fini(&cluster);
}

static void a_local_cluster_survives_every_lack_of_memory(void **state)
{
    struct cluster cluster;
    psd_status status = PSD_ENOMEM;
    long n = 0;

    (void)state;
    while (status != PSD_OK) {
        mem_fail_after(++n);
        status = cluster_init_local(&cluster, 3, 2);
        mem_fail_after(0);
    }
    assert_true(n > 5);
    assert_int_equal(cluster.host_count, 1);
    assert_true(cluster.hosts[0].local);
    assert_int_equal(cluster.workers, 3);
    assert_int_equal(cluster.servers, 2);
    assert_int_equal(cluster.master, CLUSTER_HERE);
    cluster_fini(&cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_of_a_host_is_parsed),
        cmocka_unit_test(hostile_names_are_refused),
        cmocka_unit_test(names_that_are_too_long_are_refused),
        cmocka_unit_test(a_host_is_one_however_often_it_is_named),
        cmocka_unit_test(hosts_are_bounded),
        cmocka_unit_test(hosts_are_written_as_they_are_parsed),
        cmocka_unit_test(this_machine_is_known),
        cmocka_unit_test(settling_joins_what_is_this_machine),
        cmocka_unit_test(a_master_that_nobody_else_sits_on_stays_or_goes),
        cmocka_unit_test(a_local_cluster_survives_every_lack_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
