/* probe_message.c: see probe_message.h. */
#include "check/probe_message.h"

#include "base/log.h"
#include "member/settings.h"

static psd_status finish(const struct unpack *unpack, bool good,
                         const char *what)
{
    if (!good || !unpack_done(unpack)) {
        log_error("probe: malformed %s", what);
        return PSD_EPROTO;
    }
    return PSD_OK;
}

/* Text of a host that reaches a terminal: nothing in it may steer one. */
static void tame(char *text)
{
    for (; *text != '\0'; text++) {
        if (*text < ' ' || *text > '~') {
            *text = '?';
        }
    }
}

static void unpack_shown(struct unpack *unpack, char *text, size_t size)
{
    text[0] = '\0';
    unpack_text(unpack, text, size);
    if (!unpack->failed) {
        tame(text);
    }
}

/* "tcp:" and what an address and a port are made of. */
static bool is_url(const char *url)
{
    static const char parts[] = "0123456789abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ.:[]%_-";

    return strncmp(url, "tcp:", 4) == 0 && url[4] != '\0' &&
           strspn(url, parts) == strlen(url);
}

/* ---- begin -------------------------------------------------------------- */

void probe_begin_pack(struct pack *pack, const struct probe_begin *begin)
{
    pack_bytes(pack, begin->job.id, sizeof(begin->job.id));
    pack_bytes(pack, begin->job.secret, sizeof(begin->job.secret));
    pack_u32(pack, begin->index);
    pack_u32(pack, begin->hosts);
    pack_text(pack, begin->host);
    pack_text(pack, begin->peer);
    pack_text(pack, begin->interface);
    pack_text(pack, begin->ports);
    pack_text(pack, begin->folder);
    pack_text(pack, begin->logs);
    pack_text(pack, begin->virtualenv);
}

psd_status probe_begin_unpack(struct probe_begin *begin, const void *data,
                              size_t size)
{
    struct unpack unpack;
    const void *id;
    const void *secret;
    uint16_t first;
    uint16_t last;

    *begin = (struct probe_begin){ .index = 0 };
    unpack_init(&unpack, data, size);
    id = unpack_bytes(&unpack, sizeof(begin->job.id));
    secret = unpack_bytes(&unpack, sizeof(begin->job.secret));
    if (id != NULL && secret != NULL) {
        memcpy(begin->job.id, id, sizeof(begin->job.id));
        memcpy(begin->job.secret, secret, sizeof(begin->job.secret));
    }
    begin->index = unpack_u32(&unpack);
    begin->hosts = unpack_u32(&unpack);
    unpack_text(&unpack, begin->host, sizeof(begin->host));
    unpack_text(&unpack, begin->peer, sizeof(begin->peer));
    unpack_text(&unpack, begin->interface, sizeof(begin->interface));
    unpack_text(&unpack, begin->ports, sizeof(begin->ports));
    unpack_text(&unpack, begin->folder, sizeof(begin->folder));
    unpack_text(&unpack, begin->logs, sizeof(begin->logs));
    unpack_text(&unpack, begin->virtualenv, sizeof(begin->virtualenv));
    return finish(&unpack,
                  !unpack.failed && begin->index < begin->hosts &&
                      begin->folder[0] == '/' &&
                      settings_ports(begin->ports, &first, &last),
                  "begin");
}

/* ---- facts -------------------------------------------------------------- */

void probe_facts_pack(struct pack *pack, const struct probe_facts *facts)
{
    pack_u32(pack, facts->cores);
    pack_u64(pack, facts->memory);
    pack_u64(pack, facts->memory_free);
    pack_text(pack, facts->logs);
    pack_u64(pack, facts->disk);
    pack_u64(pack, facts->disk_free);
    pack_u8(pack, facts->disk_writable);
    pack_u64(pack, facts->files);
    pack_u64(pack, facts->files_max);
    pack_u32(pack, facts->gpus);
    pack_u32(pack, facts->gpu_count);
    for (uint32_t i = 0; i < facts->gpu_count; i++) {
        pack_text(pack, facts->gpu_names[i]);
    }
    pack_u8(pack, facts->has_virtualenv);
    pack_text(pack, facts->python);
    pack_text(pack, facts->python_version);
    pack_text(pack, facts->python_reason);
    pack_u32(pack, facts->package_count);
    for (uint32_t i = 0; i < facts->package_count; i++) {
        pack_text(pack, facts->packages[i].name);
        pack_text(pack, facts->packages[i].version);
    }
    pack_text(pack, facts->address);
    pack_text(pack, facts->url);
    pack_text(pack, facts->address_reason);
}

/* A count that fits; another one fails the message. */
static uint32_t unpack_count(struct unpack *unpack, uint32_t most)
{
    uint32_t count = unpack_u32(unpack);

    if (unpack->failed || count > most) {
        unpack->failed = true;
        return 0;
    }
    return count;
}

static void unpack_python(struct unpack *unpack, struct probe_facts *facts)
{
    facts->has_virtualenv = unpack_u8(unpack);
    unpack_shown(unpack, facts->python, sizeof(facts->python));
    unpack_shown(unpack, facts->python_version,
                 sizeof(facts->python_version));
    unpack_shown(unpack, facts->python_reason, sizeof(facts->python_reason));
    facts->package_count = unpack_count(unpack, PROBE_PACKAGES_MAX);
    for (uint32_t i = 0; i < facts->package_count; i++) {
        struct probe_package *package = &facts->packages[i];

        unpack_shown(unpack, package->name, sizeof(package->name));
        unpack_shown(unpack, package->version, sizeof(package->version));
    }
}

psd_status probe_facts_unpack(struct probe_facts *facts, const void *data,
                              size_t size)
{
    struct unpack unpack;

    *facts = (struct probe_facts){ .cores = 0 };
    unpack_init(&unpack, data, size);
    facts->cores = unpack_u32(&unpack);
    facts->memory = unpack_u64(&unpack);
    facts->memory_free = unpack_u64(&unpack);
    unpack_shown(&unpack, facts->logs, sizeof(facts->logs));
    facts->disk = unpack_u64(&unpack);
    facts->disk_free = unpack_u64(&unpack);
    facts->disk_writable = unpack_u8(&unpack);
    facts->files = unpack_u64(&unpack);
    facts->files_max = unpack_u64(&unpack);
    facts->gpus = unpack_u32(&unpack);
    facts->gpu_count = unpack_count(&unpack, FACT_GPUS_MAX);
    for (uint32_t i = 0; i < facts->gpu_count; i++) {
        unpack_shown(&unpack, facts->gpu_names[i], FACT_GPU_MAX);
    }
    unpack_python(&unpack, facts);
    unpack_shown(&unpack, facts->address, sizeof(facts->address));
    unpack_shown(&unpack, facts->url, sizeof(facts->url));
    unpack_shown(&unpack, facts->address_reason,
                 sizeof(facts->address_reason));
    return finish(&unpack,
                  !unpack.failed &&
                      (facts->url[0] == '\0' || is_url(facts->url)),
                  "facts");
}

/* ---- measuring ---------------------------------------------------------- */

void probe_measure_pack(struct pack *pack, const struct probe_measure *measure)
{
    pack_u32(pack, measure->peer);
    pack_u32(pack, measure->pings);
    pack_u32(pack, measure->bulk_ms);
    pack_u32(pack, measure->limit_ms);
    pack_text(pack, measure->url);
}

psd_status probe_measure_unpack(struct probe_measure *measure,
                                const void *data, size_t size)
{
    struct unpack unpack;

    unpack_init(&unpack, data, size);
    *measure = (struct probe_measure){ .peer = unpack_u32(&unpack) };
    measure->pings = unpack_u32(&unpack);
    measure->bulk_ms = unpack_u32(&unpack);
    measure->limit_ms = unpack_u32(&unpack);
    unpack_text(&unpack, measure->url, sizeof(measure->url));
    return finish(&unpack,
                  !unpack.failed && measure->pings <= PROBE_PINGS_MAX &&
                      measure->bulk_ms <= PROBE_PART_MS_MAX &&
                      measure->limit_ms <= PROBE_PART_MS_MAX &&
                      is_url(measure->url),
                  "order to measure");
}

void probe_measured_pack(struct pack *pack,
                         const struct probe_measured *measured)
{
    pack_u32(pack, measured->peer);
    pack_u32(pack, (uint32_t)measured->status);
    pack_u64(pack, measured->trip_ns);
    pack_u64(pack, measured->size);
    pack_u64(pack, measured->time_ns);
    pack_text(pack, measured->reason);
}

psd_status probe_measured_unpack(struct probe_measured *measured,
                                 const void *data, size_t size)
{
    struct unpack unpack;

    unpack_init(&unpack, data, size);
    *measured = (struct probe_measured){ .peer = unpack_u32(&unpack) };
    measured->status = (int32_t)unpack_u32(&unpack);
    measured->trip_ns = unpack_u64(&unpack);
    measured->size = unpack_u64(&unpack);
    measured->time_ns = unpack_u64(&unpack);
    unpack_shown(&unpack, measured->reason, sizeof(measured->reason));
    return finish(&unpack, true, "result");
}

void probe_total_pack(struct pack *pack, const struct probe_total *total)
{
    pack_u64(pack, total->size);
    pack_u64(pack, total->time_ns);
}

psd_status probe_total_unpack(struct probe_total *total, const void *data,
                              size_t size)
{
    struct unpack unpack;

    unpack_init(&unpack, data, size);
    total->size = unpack_u64(&unpack);
    total->time_ns = unpack_u64(&unpack);
    return finish(&unpack, true, "total");
}

psd_status probe_clock_unpack(uint64_t *clock_p, const void *data, size_t size)
{
    struct unpack unpack;

    unpack_init(&unpack, data, size);
    *clock_p = unpack_u64(&unpack);
    return finish(&unpack, true, "clock");
}

psd_status probe_send(struct psd_link *link, enum probe_kind kind,
                      uint64_t step, const struct pack *pack)
{
    struct frame_header header = {
        .type = FRAME_PROBE,
        .rank = WIRE_RANK_NONE,
        .block = (uint32_t)kind,
        .step = step,
        .size = pack == NULL ? 0 : (uint32_t)pack->size,
    };

    if (link == NULL || (pack != NULL && pack->failed)) {
        return PSD_ENOMEM;
    }
    return link_send(link, &header, pack == NULL ? NULL : pack->data);
}

/* ---- Python ------------------------------------------------------------- */

static void copy_value(char *to, size_t size, const char *from, size_t length)
{
    snprintf(to, size, "%.*s", (int)length, from);
    tame(to);
}

static void take_line(struct probe_facts *facts, const char *line,
                      size_t length)
{
    const char *equals = memchr(line, '=', length);
    size_t name = equals == NULL ? 0 : (size_t)(equals - line);
    size_t rest = equals == NULL ? 0 : length - name - 1;

    if (name == 0 || rest == 0) {
        return;
    }
    if (name == strlen(".version") && memcmp(line, ".version", name) == 0) {
        copy_value(facts->python_version, sizeof(facts->python_version),
                   equals + 1, rest);
    } else if (name == strlen(".path") && memcmp(line, ".path", name) == 0) {
        copy_value(facts->python, sizeof(facts->python), equals + 1, rest);
    } else if (line[0] != '.' &&
               facts->package_count < PROBE_PACKAGES_MAX) {
        struct probe_package *package =
            &facts->packages[facts->package_count++];

        copy_value(package->name, sizeof(package->name), line, name);
        copy_value(package->version, sizeof(package->version), equals + 1,
                   rest);
    }
}

void probe_python_parse(struct probe_facts *facts, const char *text)
{
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");

        take_line(facts, text, length);
        text += length;
        text += *text == '\n';
    }
}
