/* option_test.c: every kind of option, and the sentence of every mistake. */
#include "base/claim.h"
#include "base/mem.h"
#include "base/option.h"

struct settings {
    bool verbose;
    uint64_t workers;
    uint64_t any;
    uint64_t block_size;
    double rate;
    const char *digest;
    const char *output;
    struct option_list pass;
    bool quick;
};

#define FIELD(name) offsetof(struct settings, name)

static const struct option_row rows[] = {
    { .name = "verbose", .letter = 'v', .kind = OPTION_FLAG,
      .offset = FIELD(verbose), .job = true, .help = "say more" },
    { .name = "workers", .letter = 'n', .kind = OPTION_UINT,
      .offset = FIELD(workers), .initial = "1", .low = 1, .high = 1024,
      .job = true, .help = "how many workers" },
    { .name = "any", .kind = OPTION_UINT, .offset = FIELD(any),
      .help = "any number" },
    { .name = "block-size", .kind = OPTION_SIZE, .offset = FIELD(block_size),
      .initial = "2M", .job = true, .help = "bytes of a block" },
    { .name = "rate", .kind = OPTION_DOUBLE, .offset = FIELD(rate),
      .initial = "0.5", .low = 0.25, .high = 1, .job = true,
      .help = "how fast" },
    { .name = "digest", .kind = OPTION_CHOICE, .offset = FIELD(digest),
      .initial = "rotate", .choices = "step|rotate|off", .job = true,
      .help = "which proof" },
    { .name = "output", .letter = 'o', .kind = OPTION_TEXT,
      .offset = FIELD(output), .value_name = "DIR", .config = true,
      .variable = true, .help = "where to" },
    { .name = "pass", .letter = 'x', .kind = OPTION_LIST,
      .offset = FIELD(pass), .value_name = "NAME", .config = true,
      .help = "what to pass on" },
    { .name = "quick", .kind = OPTION_FLAG, .offset = FIELD(quick),
      .help = "hurry" },
    { .name = NULL },
};

#define WORDS_MAX 12

struct parsed {
    struct settings settings;
    int next;
    int argc;
    char error[200];
};

/* Parse a program's words; ends with NULL. */
static psd_status parse(struct parsed *parsed, ...)
{
    char *argv[WORDS_MAX] = { "program" };
    va_list words;

    *parsed = (struct parsed){ .argc = 1, .next = -1 };
    va_start(words, parsed);
    while ((argv[parsed->argc] = va_arg(words, char *)) != NULL) {
        parsed->argc++;
        assert_true(parsed->argc < WORDS_MAX);
    }
    va_end(words);
    assert_int_equal(option_defaults(rows, &parsed->settings), PSD_OK);
    return option_parse(rows, &parsed->settings, parsed->argc, argv,
                        &parsed->next, parsed->error, sizeof(parsed->error));
}

/* The words are refused, and the sentence has `part` in it. */
#define assert_refused(part, ...)                                        \
    do {                                                                 \
        struct parsed refused;                                           \
                                                                         \
        assert_int_equal(parse(&refused, __VA_ARGS__, NULL), PSD_EINVAL); \
        option_fini(rows, &refused.settings);                            \
        if (strstr(refused.error, part) == NULL) {                       \
            fail_msg("'%s' is not in '%s'", part, refused.error);        \
        }                                                                \
    } while (0)

static void defaults_come_from_the_rows(void **state)
{
    struct parsed parsed;

    (void)state;
    assert_int_equal(parse(&parsed, NULL), PSD_OK);
    assert_false(parsed.settings.verbose);
    assert_int_equal(parsed.settings.workers, 1);
    assert_int_equal(parsed.settings.any, 0);
    assert_int_equal(parsed.settings.block_size, 2u << 20);
    assert_true(parsed.settings.rate == 0.5);
    assert_string_equal(parsed.settings.digest, "rotate");
    assert_null(parsed.settings.output);
    assert_int_equal(parsed.next, 1);
}

static void every_kind_is_parsed_in_every_spelling(void **state)
{
    struct parsed parsed;

    (void)state;
    assert_int_equal(parse(&parsed, "--verbose", "--workers", "4", "--any=7",
                           "--block-size=64K", "--rate", "0.75",
                           "--digest=off", "-o", "logs", NULL),
                     PSD_OK);
    assert_true(parsed.settings.verbose);
    assert_int_equal(parsed.settings.workers, 4);
    assert_int_equal(parsed.settings.any, 7);
    assert_int_equal(parsed.settings.block_size, 65536);
    assert_true(parsed.settings.rate == 0.75);
    assert_string_equal(parsed.settings.digest, "off");
    assert_string_equal(parsed.settings.output, "logs");
    assert_int_equal(parsed.next, parsed.argc);
    assert_int_equal(parse(&parsed, "-v", "-n4", "-ologs", NULL), PSD_OK);
    assert_true(parsed.settings.verbose);
    assert_int_equal(parsed.settings.workers, 4);
    assert_string_equal(parsed.settings.output, "logs");
    assert_int_equal(parse(&parsed, "--block_size", "1G", NULL), PSD_OK);
    assert_int_equal(parsed.settings.block_size, 1u << 30);
    assert_int_equal(parse(&parsed, "--output=", NULL), PSD_OK);
    assert_string_equal(parsed.settings.output, "");
    assert_int_equal(parse(&parsed, "-n", "2", "-n", "3", NULL), PSD_OK);
    assert_int_equal(parsed.settings.workers, 3);
}

static void parsing_ends_at_the_command(void **state)
{
    struct parsed parsed;

    (void)state;
    assert_int_equal(parse(&parsed, "-n", "2", "python", "-v", NULL), PSD_OK);
    assert_int_equal(parsed.next, 3);
    assert_false(parsed.settings.verbose);
    assert_int_equal(parse(&parsed, "-n2", "--", "-v", NULL), PSD_OK);
    assert_int_equal(parsed.next, 3);
    assert_false(parsed.settings.verbose);
    assert_int_equal(parse(&parsed, "--", NULL), PSD_OK);
    assert_int_equal(parsed.next, 2);
    assert_int_equal(parse(&parsed, "-", NULL), PSD_OK);
    assert_int_equal(parsed.next, 1);
}

static void an_unknown_option_names_the_nearest(void **state)
{
    struct parsed parsed;

    (void)state;
    assert_refused("did you mean --workers?", "--wokers", "4");
    assert_refused("did you mean --digest?", "--dijest", "off");
    assert_refused("did you mean --digest?", "--dijest=rotate");
    assert_refused("did you mean --block-size?", "--blok_size", "1");
    assert_refused("unknown option --frobnicate", "--frobnicate");
    assert_int_equal(parse(&parsed, "--frobnicate", NULL), PSD_EINVAL);
    assert_null(strstr(parsed.error, "mean"));
    assert_refused("unknown option -z", "-z");
    assert_refused("--help", "--x");
    assert_refused("unknown option --work", "--work", "4");
}

static void a_value_that_is_missing_or_too_much_is_named(void **state)
{
    (void)state;
    assert_refused("--workers needs a value", "--workers");
    assert_refused("-n needs a value", "-v", "-n");
    assert_refused("--verbose takes no value", "--verbose=1");
    assert_refused("--verbose takes no value", "-vn");
}

static void a_number_must_be_one_and_in_range(void **state)
{
    (void)state;
    assert_refused("--workers is '0', it must be in 1..1024", "--workers",
                   "0");
    assert_refused("1..1024", "-n", "5000");
    assert_refused("1..1024", "-n", "two");
    assert_refused("1..1024", "-n", "2x");
    assert_refused("1..1024", "-n", "-2");
    assert_refused("1..1024", "-n", "");
    assert_refused("1..1024", "-n", "1.5");
    assert_refused("1..1024", "-n", " 2");
    assert_refused("--any is 'x', it must be a number", "--any", "x");
    assert_refused("a number", "--any", "99999999999999999999");
    assert_refused("in 0.25..1", "--rate", "0.2");
    assert_refused("in 0.25..1", "--rate", "nan");
    assert_refused("in 0.25..1", "--rate", "1e999");
    assert_refused("in 0.25..1", "--rate", "");
    assert_refused("in 0.25..1", "--rate", "0.5x");
}

static void a_number_may_be_auto_where_that_is_the_default(void **state)
{
    static const struct option_row row = {
        .name = "threads", .kind = OPTION_UINT, .initial = "auto",
        .low = 1, .high = 64,
    };
    uint64_t threads = 7;
    char text[100];

    (void)state;
    assert_int_equal(option_set(&row, &threads, "auto"), PSD_OK);
    assert_int_equal(threads, 0);
    option_format(&row, &threads, text, sizeof(text));
    assert_string_equal(text, "auto");
    assert_int_equal(option_set(&row, &threads, "64"), PSD_OK);
    option_format(&row, &threads, text, sizeof(text));
    assert_string_equal(text, "64");
    assert_false(option_accepts(&row, "0"));
    option_explain(&row, "--threads", "0", text, sizeof(text));
    assert_string_equal(text, "--threads is '0', it must be auto or in 1..64");
    assert_refused("1..1024", "-n", "auto");
}

static void a_choice_must_be_one_of_them(void **state)
{
    (void)state;
    assert_refused("--digest is 'maybe', it must be one of step|rotate|off",
                   "--digest", "maybe");
    assert_refused("one of", "--digest=");
    assert_refused("one of", "--digest", "step|rotate");
    assert_refused("one of", "--digest", "ste");
    assert_refused("one of", "--digest", "stepp");
    assert_refused("one of", "--digest", "of");
    assert_refused("off; did you mean rotate?", "--digest", "rotat");
    assert_refused("is '?[31m', it must", "--digest", "\x1b[31m");
}

static void sizes_have_suffixes(void **state)
{
    static const struct {
        const char *text;
        uint64_t size;
    } good[] = {
        { "0", 0 },          { "1", 1 },           { "4096", 4096 },
        { "64K", 65536 },    { "64k", 65536 },     { "2M", 2u << 20 },
        { "1G", 1u << 30 },  { "1KiB", 1024 },     { "3MiB", 3u << 20 },
        { "12B", 12 },       { "4KB", 4096 },
        { "17179869183G", UINT64_C(17179869183) << 30 },
    };
    static const char *const bad[] = {
        "",     "K",    "-1",  " 1",   " -1",    "+1",  "1T",  "1.5K",
        "1 K",  "1KK",  "0x10", "1Kx", "1iB",    "1Ki",
        "17179869184G", "18446744073709551616",
    };
    struct parsed parsed;
    uint64_t size;

    (void)state;
    for (size_t i = 0; i < CLAIM_COUNT(good); i++) {
        assert_int_equal(option_size(good[i].text, &size), PSD_OK);
        assert_int_equal(size, good[i].size);
    }
    for (size_t i = 0; i < CLAIM_COUNT(bad); i++) {
        size = 77;
        if (option_size(bad[i], &size) != PSD_EINVAL) {
            fail_msg("'%s' is taken for a size", bad[i]);
        }
        assert_int_equal(size, 77);
    }
    assert_refused("a size such as", "--block-size", "big");
    assert_int_equal(parse(&parsed, "--block-size", "0", NULL), PSD_OK);
}

static void the_environment_sets_rows_that_say_so(void **state)
{
    struct settings settings = { .workers = 1 };
    char error[200] = "";

    (void)state;
    setenv("PSD_WORKERS", "12", 1);
    setenv("PSD_BLOCK_SIZE", "4M", 1);
    setenv("PSD_VERBOSE", "1", 1);
    setenv("PSD_DIGEST", "step", 1);
    setenv("PSD_RATE", "0.25", 1);
    setenv("PSD_ANY", "3", 1);
    setenv("PSD_OUTPUT", "x", 1);
    assert_int_equal(
        option_environment(rows, &settings, error, sizeof(error)), PSD_OK);
    assert_int_equal(settings.workers, 12);
    assert_int_equal(settings.block_size, 4u << 20);
    assert_true(settings.verbose);
    assert_true(settings.rate == 0.25);
    assert_string_equal(settings.digest, "step");
    assert_int_equal(settings.any, 0);
    assert_string_equal(settings.output, "x"); /* says its row */
    setenv("PSD_VERBOSE", "0", 1);
    assert_int_equal(
        option_environment(rows, &settings, error, sizeof(error)), PSD_OK);
    assert_false(settings.verbose);
    setenv("PSD_WORKERS", "0", 1);
    assert_int_equal(
        option_environment(rows, &settings, error, sizeof(error)),
        PSD_EINVAL);
    assert_string_equal(error, "PSD_WORKERS is '0', it must be in 1..1024");
    unsetenv("PSD_WORKERS");
}

static void what_is_formatted_is_parsed_again(void **state)
{
    struct settings before = { true,  17,    3,           12345, 0.3,
                               "off", "a b", { .count = 0 }, true };
    struct settings after = { .workers = 0 };

    (void)state;
    for (const struct option_row *row = rows; row->name != NULL; row++) {
        char text[100];
        char word[200];
        char *argv[] = { "program", word };
        char error[200];
        int next;

        option_format(row, &before, text, sizeof(text));
        if (row->kind == OPTION_FLAG) {
            assert_string_equal(text, "1");
            continue;
        }
        snprintf(word, sizeof(word), "--%s=%s", row->name, text);
        assert_int_equal(option_parse(rows, &after, 2, argv, &next, error,
                                      sizeof(error)),
                         PSD_OK);
        option_format(row, &after, word, sizeof(word));
        assert_string_equal(word, text); /* the words do not outlive us */
    }
    assert_int_equal(after.workers, 17);
    assert_int_equal(after.any, 3);
    assert_int_equal(after.block_size, 12345);
    assert_true(after.rate == 0.3);
    option_fini(rows, &after);
}

static void a_list_grows_in_order(void **state)
{
    struct parsed parsed;
    char text[100];

    (void)state;
    assert_int_equal(parse(&parsed, "-x", "A=1", "-n2", "--pass=B", "-xC,D",
                           NULL),
                     PSD_OK);
    assert_int_equal(parsed.settings.pass.count, 3);
    assert_string_equal(parsed.settings.pass.values[0], "A=1");
    assert_string_equal(parsed.settings.pass.values[1], "B");
    assert_string_equal(parsed.settings.pass.values[2], "C,D");
    option_format(rows + 7, &parsed.settings, text, sizeof(text));
    assert_string_equal(text, "A=1 B C,D");
    option_format(rows + 7, &parsed.settings, text, 6);
    assert_string_equal(text, "A=1 B");
    option_fini(rows, &parsed.settings);
    assert_int_equal(parsed.settings.pass.count, 0);
    assert_refused("-x needs a value", "-x", "A", "-x");
    mem_fail_after(2);
    assert_int_equal(parse(&parsed, "-x", "A", "-x", "B", NULL), PSD_ENOMEM);
    mem_fail_after(0);
    assert_string_equal(parsed.error, "out of memory");
    option_fini(rows, &parsed.settings);
}

static void every_value_knows_where_it_came_from(void **state)
{
    struct option_source sources[CLAIM_COUNT(rows)];
    struct parsed parsed;
    char *argv[] = { "program", "-n", "4", "--digest=off", "-xA",
                     "-x",      "B",  "--", "-v" };
    char text[4096] = "";
    FILE *file = fmemopen(text, sizeof(text), "w");

    (void)state;
    unsetenv("PSD_WORKERS");
    unsetenv("PSD_VERBOSE");
    unsetenv("PSD_BLOCK_SIZE");
    setenv("PSD_RATE", "0.75", 1);
    setenv("PSD_DIGEST", "step", 1);
    setenv("PSD_ANY", "3", 1);
    setenv("PSD_OUTPUT", "x", 1);
    assert_int_equal(parse(&parsed, "-n", "4", "--digest=off", "-xA", "-x",
                           "B", NULL),
                     PSD_OK);
    parsed.settings.rate = 0.75;
    option_trace(rows, (int)CLAIM_COUNT(argv), argv, sources);
    assert_int_equal(sources[0].origin, OPTION_FROM_DEFAULT);
    assert_int_equal(sources[1].origin, OPTION_FROM_WORDS);
    assert_int_equal(sources[2].origin, OPTION_FROM_DEFAULT); /* no variable */
    assert_int_equal(sources[4].origin, OPTION_FROM_ENVIRONMENT);
    assert_int_equal(sources[5].origin, OPTION_FROM_WORDS);
    assert_int_equal(sources[6].origin, OPTION_FROM_ENVIRONMENT);
    sources[3] = (struct option_source){ .origin = OPTION_FROM_FILE,
                                         .file = "c.json",
                                         .line = 12 };
    option_print(rows, &parsed.settings, sources, file);
    fclose(file);
    option_fini(rows, &parsed.settings);
    assert_string_equal(
        text,
        "  verbose          0                                default\n"
        "  workers          4                                command line\n"
        "  any              0                                default\n"
        "  block-size       2097152                          c.json:12\n"
        "  rate             0.75                             environment "
        "PSD_RATE\n"
        "  digest           off                              command line\n"
        "  output           -                                environment "
        "PSD_OUTPUT\n"
        "  pass             A B                              command line\n");
}

static void rows_say_whether_a_file_may_have_them(void **state)
{
    (void)state;
    assert_true(option_is_key(&rows[3], "block_size"));
    assert_true(option_is_key(&rows[3], "block-size"));
    assert_false(option_is_key(&rows[3], "block"));
    assert_true(option_is_key(&rows[6], "output"));
    assert_false(option_is_key(&rows[2], "any"));
    assert_true(option_accepts(&rows[1], "7"));
    assert_false(option_accepts(&rows[1], "0"));
    assert_true(option_accepts(&rows[4], "0.5"));
    assert_true(option_accepts(&rows[6], "anything"));
    assert_true(option_accepts(&rows[7], "anything"));
    assert_false(option_accepts(&rows[5], "maybe"));
}

static void the_help_has_every_row(void **state)
{
    char text[4096] = "";
    FILE *file = fmemopen(text, sizeof(text), "w");

    (void)state;
    assert_non_null(file);
    option_help(rows, file);
    fclose(file);
    for (const struct option_row *row = rows; row->name != NULL; row++) {
        assert_non_null(strstr(text, row->name));
        assert_non_null(strstr(text, row->help));
    }
    assert_non_null(strstr(text, "-n, --workers N"));
    assert_non_null(strstr(text, "-o, --output DIR"));
    assert_non_null(strstr(text, "--digest step|rotate|off"));
    assert_non_null(strstr(text, "(default 2M)"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_come_from_the_rows),
        cmocka_unit_test(every_kind_is_parsed_in_every_spelling),
        cmocka_unit_test(parsing_ends_at_the_command),
        cmocka_unit_test(an_unknown_option_names_the_nearest),
        cmocka_unit_test(a_value_that_is_missing_or_too_much_is_named),
        cmocka_unit_test(a_number_must_be_one_and_in_range),
        cmocka_unit_test(a_number_may_be_auto_where_that_is_the_default),
        cmocka_unit_test(a_choice_must_be_one_of_them),
        cmocka_unit_test(sizes_have_suffixes),
        cmocka_unit_test(the_environment_sets_rows_that_say_so),
        cmocka_unit_test(what_is_formatted_is_parsed_again),
        cmocka_unit_test(a_list_grows_in_order),
        cmocka_unit_test(every_value_knows_where_it_came_from),
        cmocka_unit_test(rows_say_whether_a_file_may_have_them),
        cmocka_unit_test(the_help_has_every_row),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
