/* hostfile_test.c: hostfiles as other launchers have them, and mistakes. */
#include "base/claim.h"
#include "base/mem.h"
#include "config/hostfile.h"

static char error[300];

static psd_status parse_bytes(const char *text, size_t size,
                              struct cluster *cluster)
{
    struct document document = { .path = "hosts", .text = text, .size = size };

    error[0] = '\0';
    return hostfile_parse(&document, cluster, error, sizeof(error));
}

/* The workers' hosts by rank, with blanks between. */
static const char *hosts(const char *file)
{
    static char text[4000];
    struct cluster cluster;
    size_t used = 0;

    if (parse_bytes(file, strlen(file), &cluster) != PSD_OK) {
        fail_msg("%s", error);
    }
    text[0] = '\0';
    for (uint32_t i = 0; i < cluster.workers && used < sizeof(text); i++) {
        char host[600];

        cluster_host_text(&cluster.hosts[cluster.worker_seats[i].host], host,
                          sizeof(host));
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s",
                                 i == 0 ? "" : " ", host);
    }
    assert_int_equal(cluster.servers, 0);
    assert_string_equal(cluster.origin, "hosts");
    cluster_fini(&cluster);
    return text;
}

static void every_line_is_a_host(void **state)
{
    (void)state;
    assert_string_equal(hosts("a\n"), "a");
    assert_string_equal(hosts("a\nb"), "a b");
    assert_string_equal(hosts("# all of them\n\n  a slots=2 # two\n"
                              "\tb slots=1 max_slots=4\r\n"),
                        "a a b");
    assert_string_equal(hosts("ann@a:2222 slots=2\n[::1]:22\nfe80::1%eth0"),
                        "ann@a:2222 ann@a:2222 [::1]:22 [fe80::1%eth0]");
    assert_string_equal(hosts("a slots = 2 max-slots = 2\n"), "a a");
    assert_string_equal(hosts("a user=ann port=2222\nb username=bob"),
                        "ann@a:2222 bob@b");
    assert_string_equal(hosts("a slots=1\nb\na slots=1#again"), "a b a");
    assert_string_equal(hosts("worker-1 slots=4\nworker-2 slots=1"),
                        "worker-1 worker-1 worker-1 worker-1 worker-2");
}

static void refused(const char *file, const char *part)
{
    struct cluster cluster = { .workers = 77 };

    if (parse_bytes(file, strlen(file), &cluster) != PSD_EINVAL) {
        fail_msg("'%s' is taken", file);
    }
    if (strstr(error, part) == NULL) {
        fail_msg("'%s' is not in '%s'", part, error);
    }
    assert_int_equal(cluster.workers, 77);
}

static void mistakes_have_their_place(void **state)
{
    (void)state;
    refused("", "hosts:1:1: no host in it");
    refused("# nothing\n\n", "hosts:1:1: no host in it");
    refused("a\nb slots=x", "hosts:2:9: slots is 'x', it must be a number in "
                            "1..1024");
    refused("a slots=0", "hosts:1:9: slots is '0'");
    refused("a slots=-1", "slots is '-1'");
    refused("a slots=1025", "slots is '1025'");
    refused("a slots=9999999999", "slots is '9999999999'");
    refused("a slots=", "hosts:1:9: slots is ''");
    refused("a slots", "hosts:1:3: slots needs a value");
    refused("a slot=2", "hosts:1:3: unknown word 'slot'; did you mean "
                        "slots=?");
    refused("a 4", "hosts:1:3: unknown word '4'; behind a host");
    refused("a b", "unknown word 'b'");
    refused("a slots=2 max_slots=1",
            "hosts:1:21: max_slots is 1, less than the 2 slots");
    refused("a\n  slots=2", "hosts:2:3: a line begins with a host");
    refused("a slots=1=2", "hosts:1:10: unknown word ''");
    refused("a:4", "hosts:1:1: port 4 of sshd? If 4 workers are meant, write "
                   "a slots=4");
    refused("u@a user=v", "given twice");
    refused("a:22 port=23", "given twice");
    refused("a port=0", "port must be");
    refused("a port=65536", "port must be");
    refused("a user=-l", "begins with a dash");
    refused("a slots=600\nb slots=600", "hosts:2:1: more than 1024 workers");
}

static void hostile_names_are_refused(void **state)
{
    static const char *const bad[] = {
        "-oProxyCommand=x", "-a",   "$(id)",     "`id`",     "a;b",
        "a'b",              "a\"b", "a\001b",   "m\xc3\xbc", "a\\b",
        "u;@a",             "a|b",  "*",         "a:b:c",
    };
    static char bytes[] = "a\nb\0c\n";
    char text[3000];
    struct cluster cluster;

    (void)state;
    for (size_t i = 0; i < CLAIM_COUNT(bad); i++) {
        snprintf(text, sizeof(text), "\n %s slots=1", bad[i]);
        refused(text, "hosts:2:2: ");
    }
    assert_int_equal(parse_bytes(bytes, sizeof(bytes) - 1, &cluster),
                     PSD_EINVAL);
    assert_string_equal(error, "hosts:2:2: a NUL character; is this a text "
                               "file?");
    memset(text, 'a', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    refused(text, "too long");
    text[300] = '\0';
    refused(text, "longer than 255");
    memcpy(text, "a ", 2);
    text[300] = 'a';
    refused(text, "unknown word");
}

static void a_file_is_read(void **state)
{
    char path[] = "/tmp/psd_hosts.XXXXXX";
    int fd = mkstemp(path);
    struct cluster cluster;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "a slots=3\n", 10), 10);
    close(fd);
    assert_int_equal(hostfile_read(path, &cluster, error, sizeof(error)),
                     PSD_OK);
    assert_int_equal(cluster.workers, 3);
    assert_string_equal(cluster.origin, path);
    cluster_fini(&cluster);
    unlink(path);
    assert_int_equal(hostfile_read(path, &cluster, error, sizeof(error)),
                     PSD_EINVAL);
    assert_non_null(strstr(error, "cannot read"));
}

static void every_lack_of_memory_is_survived(void **state)
{
    static const char text[] = "ann@a slots=2\nb\n";
    struct cluster cluster;
    psd_status status = PSD_ENOMEM;
    long n = 0;

    (void)state;
    while (status != PSD_OK) {
        mem_fail_after(++n);
        status = parse_bytes(text, sizeof(text) - 1, &cluster);
        mem_fail_after(0);
    }
    assert_true(n > 8);
    cluster_fini(&cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_line_is_a_host),
        cmocka_unit_test(mistakes_have_their_place),
        cmocka_unit_test(hostile_names_are_refused),
        cmocka_unit_test(a_file_is_read),
        cmocka_unit_test(every_lack_of_memory_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
