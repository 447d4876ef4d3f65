/* probe_message_test.c: what probes say, there and back, and rubbish. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/mem.h"
#include "check/probe_message.h"

static struct probe_facts sample(void)
{
    struct probe_facts facts = {
        .cores = 4,
        .memory = UINT64_C(16) << 30,
        .memory_free = UINT64_C(8) << 30,
        .logs = "/data/logs",
        .disk = 1000,
        .disk_free = 500,
        .disk_writable = 1,
        .files = 1024,
        .files_max = 4096,
        .gpus = 2,
        .gpu_count = 2,
        .gpu_names = { "NVIDIA A", "NVIDIA B" },
        .has_virtualenv = 1,
        .python = "/venv/bin/python",
        .python_version = "3.11.2",
        .package_count = 2,
        .packages = { { "torch", "2.3.1" }, { "numpy", "1.26.4" } },
        .address = "10.0.0.1",
        .url = "tcp:10.0.0.1:7000",
    };

    return facts;
}

static void facts_arrive_as_they_were(void **state)
{
    static struct probe_facts in;
    static struct probe_facts out;
    struct pack pack;

    (void)state;
    in = sample();
    pack_init(&pack);
    probe_facts_pack(&pack, &in);
    assert_int_equal(probe_facts_unpack(&out, pack.data, pack.size), PSD_OK);
    assert_int_equal(out.cores, in.cores);
    assert_true(out.memory_free == in.memory_free);
    assert_string_equal(out.logs, in.logs);
    assert_int_equal(out.gpu_count, 2);
    assert_string_equal(out.gpu_names[1], "NVIDIA B");
    assert_string_equal(out.packages[1].version, "1.26.4");
    assert_string_equal(out.url, in.url);
    for (size_t size = 0; size < pack.size; size++) { /* cut anywhere */
        assert_int_equal(probe_facts_unpack(&out, pack.data, size),
                         PSD_EPROTO);
    }
    pack_u8(&pack, 0); /* and one byte too many */
    assert_int_equal(probe_facts_unpack(&out, pack.data, pack.size),
                     PSD_EPROTO);
    pack_fini(&pack);
}

/* Any byte may be another one: never a crash, never a text without end. */
static void changed_facts_are_refused_or_harmless(void **state)
{
    static struct probe_facts in;
    static struct probe_facts out;
    struct pack pack;

    (void)state;
    in = sample();
    pack_init(&pack);
    probe_facts_pack(&pack, &in);
    for (size_t i = 0; i < pack.size; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            pack.data[i] ^= (uint8_t)(1u << bit);
            if (probe_facts_unpack(&out, pack.data, pack.size) == PSD_OK) {
                assert_true(out.gpu_count <= FACT_GPUS_MAX);
                assert_true(out.package_count <= PROBE_PACKAGES_MAX);
                assert_true(strlen(out.python) < sizeof(out.python));
            }
            pack.data[i] ^= (uint8_t)(1u << bit);
        }
    }
    pack_fini(&pack);
}

static void no_host_steers_the_terminal(void **state)
{
    static struct probe_facts in;
    static struct probe_facts out;
    struct pack pack;

    (void)state;
    in = sample();
    snprintf(in.python_version, sizeof(in.python_version), "3\033[2J\n\xc3");
    pack_init(&pack);
    probe_facts_pack(&pack, &in);
    assert_int_equal(probe_facts_unpack(&out, pack.data, pack.size), PSD_OK);
    assert_string_equal(out.python_version, "3?[2J??");
    pack_fini(&pack);
    snprintf(in.url, sizeof(in.url), "inproc:x");
    pack_init(&pack);
    probe_facts_pack(&pack, &in);
    assert_int_equal(probe_facts_unpack(&out, pack.data, pack.size),
                     PSD_EPROTO);
    pack_fini(&pack);
}

static psd_status take_begin(const struct probe_begin *in,
                             struct probe_begin *out)
{
    struct pack pack;
    psd_status status;

    pack_init(&pack);
    probe_begin_pack(&pack, in);
    for (size_t size = 0; size < pack.size; size++) {
        assert_int_equal(probe_begin_unpack(out, pack.data, size),
                         PSD_EPROTO);
    }
    status = probe_begin_unpack(out, pack.data, pack.size);
    pack_wipe(&pack);
    return status;
}

static void begin_is_checked(void **state)
{
    static struct probe_begin in = { .index = 1,
                                     .hosts = 2,
                                     .host = "node1",
                                     .ports = "7000-7100",
                                     .folder = "/work",
                                     .logs = "out" };
    static struct probe_begin out;

    (void)state;
    memset(in.job.secret, 7, sizeof(in.job.secret));
    assert_int_equal(take_begin(&in, &out), PSD_OK);
    assert_memory_equal(out.job.secret, in.job.secret,
                        sizeof(in.job.secret));
    assert_string_equal(out.host, "node1");
    snprintf(in.ports, sizeof(in.ports), "7100-7000");
    assert_int_equal(take_begin(&in, &out), PSD_EPROTO);
    snprintf(in.ports, sizeof(in.ports), "0");
    in.index = 2;
    assert_int_equal(take_begin(&in, &out), PSD_EPROTO);
}

static psd_status take_measure(const struct probe_measure *in)
{
    struct probe_measure out;
    struct pack pack;
    psd_status status;

    pack_init(&pack);
    probe_measure_pack(&pack, in);
    status = probe_measure_unpack(&out, pack.data, pack.size);
    pack_fini(&pack);
    return status;
}

static void orders_are_bounded(void **state)
{
    struct probe_measure in = { .peer = 1,
                                .pings = 20,
                                .bulk_ms = 125,
                                .limit_ms = 3000,
                                .url = "tcp:[fd77::1]:7000" };

    (void)state;
    assert_int_equal(take_measure(&in), PSD_OK);
    in.pings = PROBE_PINGS_MAX + 1;
    assert_int_equal(take_measure(&in), PSD_EPROTO);
    in.pings = 0;
    in.bulk_ms = UINT32_MAX;
    assert_int_equal(take_measure(&in), PSD_EPROTO);
    in.bulk_ms = 0;
    snprintf(in.url, sizeof(in.url), "tcp:");
    assert_int_equal(take_measure(&in), PSD_EPROTO);
    snprintf(in.url, sizeof(in.url), "tcp:a b:1");
    assert_int_equal(take_measure(&in), PSD_EPROTO);
}

static void results_arrive_as_they_were(void **state)
{
    struct probe_measured in = { .peer = 3,
                                 .status = PSD_ETIME,
                                 .trip_ns = 1,
                                 .size = 2,
                                 .time_ns = 3,
                                 .reason = "no answer" };
    struct probe_measured out;
    struct pack pack;

    (void)state;
    pack_init(&pack);
    probe_measured_pack(&pack, &in);
    assert_int_equal(probe_measured_unpack(&out, pack.data, pack.size),
                     PSD_OK);
    assert_int_equal(out.status, PSD_ETIME);
    assert_string_equal(out.reason, "no answer");
    assert_int_equal(probe_measured_unpack(&out, pack.data, pack.size - 1),
                     PSD_EPROTO);
    pack_fini(&pack);
}

static void python_may_say_anything(void **state)
{
    static struct probe_facts facts;
    char text[4096];
    size_t used = 0;

    (void)state;
    probe_python_parse(&facts, "a line of sitecustomize\n.version=3.11.2\n"
                               ".path=/venv/bin/python\ntorch=2.3.1+cpu\n"
                               "=1\nnumpy=\n\nkeras=3\x1b[1m");
    assert_string_equal(facts.python_version, "3.11.2");
    assert_string_equal(facts.python, "/venv/bin/python");
    assert_int_equal(facts.package_count, 2);
    assert_string_equal(facts.packages[0].version, "2.3.1+cpu");
    assert_string_equal(facts.packages[1].version, "3?[1m");
    while (used + 64 < sizeof(text)) {
        used += (size_t)snprintf(text + used, sizeof(text) - used, "x=1\n");
    }
    probe_python_parse(&facts, text);
    assert_int_equal(facts.package_count, PROBE_PACKAGES_MAX);
    memset(text, 'y', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    text[40] = '=';
    facts.package_count = 0;
    probe_python_parse(&facts, text); /* cut, not overrun */
    assert_int_equal(strlen(facts.packages[0].name),
                     sizeof(facts.packages[0].name) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts_arrive_as_they_were),
        cmocka_unit_test(changed_facts_are_refused_or_harmless),
        cmocka_unit_test(no_host_steers_the_terminal),
        cmocka_unit_test(begin_is_checked),
        cmocka_unit_test(orders_are_bounded),
        cmocka_unit_test(results_arrive_as_they_were),
        cmocka_unit_test(python_may_say_anything),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
