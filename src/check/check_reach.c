/*
 * check_reach.c: what is wrong with the network, told by psd check; see
 * check_judge.h. Pure.
 */
#define _GNU_SOURCE
#include "check/check_judge.h"

#include <inttypes.h>

#include "base/mem.h"

#define SLOW       3.0 /* times the median */
#define SLOW_LEAST 4   /* directions measured, for a median to say much */
#define PAIRS_TOLD 20

/* A host that was lost on the way explains its pairs. */
static bool is_cut(const struct check_result *result, uint32_t from,
                   uint32_t to)
{
    const struct check_pair *pair = check_pair(result, from, to);

    if (result->hosts[from].reason[0] != '\0' ||
        result->hosts[to].reason[0] != '\0') {
        return false;
    }
    return pair->contact == CHECK_NOT_REACHED ||
           (pair->contact == CHECK_REACHED && !pair->measured &&
            pair->reason != NULL);
}

static const char *why(const struct check_result *result, uint32_t from,
                       uint32_t to)
{
    const char *reason = check_pair(result, from, to)->reason;

    return reason == NULL ? "no answer" : reason;
}

/* What to try when `from` does not reach `to`. */
static void cure(const struct check_result *result, uint32_t from, uint32_t to,
                 char *text, size_t size)
{
    const struct check_host *source = &result->hosts[from];
    const struct check_host *sink = &result->hosts[to];
    const char *ports = result->plan->ports;
    char ping[JUDGE_COMMAND_MAX];
    char allow[JUDGE_COMMAND_MAX];
    char range[64] = "";

    if (strcmp(ports, "0") != 0) {
        snprintf(range, sizeof(range), " to any port %s", ports);
        for (char *at = range; *at != '\0'; at++) {
            *at = *at == '-' ? ':' : *at; /* as ufw has it */
        }
    }
    judge_there(source, ping, sizeof(ping), "ping -c 3 %s",
                judge_plain(sink->facts->address, "ADDRESS"));
    judge_there(sink, allow, sizeof(allow),
                "sudo ufw allow proto tcp from %s%s",
                judge_plain(source->facts->address, "ADDRESS"), range);
    snprintf(text, size,
             "if `%s` is answered, a firewall or security group is in "
             "between: `%s`%s; otherwise that is not the address to use "
             "(\"interface\" names another)",
             ping, allow,
             range[0] == '\0'
                 ? ", or open a range and name it (\"ports\": \"7000-7100\")"
                 : "");
}

/* How many others take part and are cut off from `host`. */
static void count_cuts(const struct check_result *result, uint32_t host,
                       uint32_t *peers_p, uint32_t *in_p, uint32_t *out_p,
                       uint32_t *sample_p)
{
    *peers_p = 0;
    *in_p = 0;
    *out_p = 0;
    for (uint32_t i = 0; i < result->count; i++) {
        bool in = i != host && is_cut(result, i, host);

        *peers_p +=
            i != host && check_pair(result, i, host)->contact != CHECK_UNTRIED;
        *out_p += i != host && is_cut(result, host, i);
        *in_p += in;
        *sample_p = in ? i : *sample_p;
    }
}

/* Nobody reaches it: then it is this host. True: the pairs are explained. */
static bool judge_island(struct judge *judge, uint32_t host)
{
    const struct check_result *result = judge->result;
    uint32_t peers;
    uint32_t in;
    uint32_t out;
    uint32_t sample = 0;
    char text[4096];

    if (result->hosts[host].facts == NULL) {
        return false;
    }
    count_cuts(result, host, &peers, &in, &out, &sample);
    if (peers < 2 || in < peers) {
        return false;
    }
    cure(result, sample, host, text, sizeof(text));
    judge_add(judge, false, host, "no other host reaches it at %s%s: %s; %s",
              result->hosts[host].facts->address,
              out == peers ? ", and it reaches none" : "",
              why(result, sample, host), text);
    return true;
}

static void judge_pair(struct judge *judge, uint32_t a, uint32_t b)
{
    const struct check_result *result = judge->result;
    bool forth = is_cut(result, a, b);
    bool back = is_cut(result, b, a);
    uint32_t from = forth ? a : b;
    uint32_t to = forth ? b : a;
    char text[4096];

    if (!forth && !back) {
        return;
    }
    if (judge->pairs_told >= PAIRS_TOLD) {
        judge->pairs_left++;
        return;
    }
    judge->pairs_told++;
    cure(result, from, to, text, sizeof(text));
    judge_add(judge, false, from, "%s %s at %s: %s; %s",
              forth && back ? "it does not reach, and is not reached by,"
                            : "it does not reach",
              result->hosts[to].where->name, result->hosts[to].facts->address,
              why(result, from, to), text);
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;

    return (left > right) - (left < right);
}

double check_median_rate(const struct check_result *result)
{
    size_t all = (size_t)result->count * result->count;
    double *rates = mem_zalloc_array(all + 1, sizeof(*rates));
    size_t count = 0;
    double median = 0;

    for (size_t i = 0; rates != NULL && i < all; i++) {
        if (result->pairs[i].rate > 0) {
            rates[count++] = result->pairs[i].rate;
        }
    }
    if (count > 0) {
        qsort(rates, count, sizeof(*rates), compare);
        median = rates[count / 2];
    }
    mem_free(rates);
    return median;
}

/* A host all of whose links are slow has a slow network. */
static void judge_speed(struct judge *judge)
{
    const struct check_result *result = judge->result;
    double median = check_median_rate(result);

    for (uint32_t i = 0; i < result->count && median > 0; i++) {
        const struct check_host *host = &result->hosts[i];
        uint32_t measured = 0;
        uint32_t slow = 0;
        double best = 0;
        char command[JUDGE_COMMAND_MAX];

        for (uint32_t k = 0; k < result->count; k++) {
            double out = check_pair(result, i, k)->rate;
            double in = check_pair(result, k, i)->rate;

            measured += out > 0;
            measured += in > 0;
            slow += out > 0 && out < median / SLOW;
            slow += in > 0 && in < median / SLOW;
            best = out > best ? out : best;
        }
        if (measured >= SLOW_LEAST && slow == measured) {
            judge_add(
                judge, true, i,
                "its network is slow: it sends %.3g GB/s at best, the median "
                "of all pairs is %.3g; `%s` shows the speed of its links",
                best / 1e9, median / 1e9,
                judge_there(host, command, sizeof(command),
                            "grep . /sys/class/net/*/speed"));
        }
    }
}

void judge_pairs(struct judge *judge)
{
    const struct check_result *result = judge->result;
    bool *island = mem_zalloc_array(result->count, sizeof(*island));

    if (island == NULL) {
        judge->status = PSD_ENOMEM;
        return;
    }
    for (uint32_t i = 0; i < result->count; i++) {
        island[i] = judge_island(judge, i);
    }
    for (uint32_t a = 0; a < result->count; a++) {
        for (uint32_t b = a + 1; b < result->count; b++) {
            if (!island[a] && !island[b]) {
                judge_pair(judge, a, b);
            }
        }
    }
    if (judge->pairs_left > 0) {
        judge_add(judge, false, 0,
                  "%" PRIu32 " more pairs do not reach each other; --json "
                  "lists all",
                  judge->pairs_left);
    }
    judge_speed(judge);
    mem_free(island);
}
