/* config_key.c: the keys of the cluster file that are no options: what reads
 * each, and what shows it to --print-config. */
#define _GNU_SOURCE
#include "config/config_state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <net/if.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/word.h"

#define USER_OF_PEM "ubuntu" /* the manual's */

/* ---- reading ------------------------------------------------------------ */

/* A text without control characters, and not empty. */
static psd_status read_text(struct config_reader *reader,
                            struct locate_path path, const char *name,
                            json_t *value, const char *wanted,
                            const char **text_p)
{
    const char *text = json_string_value(value);

    if (text == NULL) {
        return config_wrong_type(reader, path, name, value, wanted);
    }
    if (text[0] == '\0') {
        return config_complain(reader, path, "%s is empty, it must be %s",
                               name, wanted);
    }
    for (const char *c = text; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7f) {
            return config_complain(reader, path,
                                   "%s has a control character in it, it "
                                   "must be %s",
                                   name, wanted);
        }
    }
    *text_p = text;
    return PSD_OK;
}

static psd_status keep(struct config_reader *reader, const char *text,
                       char **to_p)
{
    *to_p = mem_strdup(text);
    return *to_p == NULL ? config_no_memory(reader) : PSD_OK;
}

/* Editors put the name of the schema there. */
static psd_status read_schema(struct config_reader *reader,
                              struct locate_path path, json_t *value)
{
    return json_is_string(value)
               ? PSD_OK
               : config_wrong_type(reader, path, "$schema", value, "a text");
}

static psd_status read_username(struct config_reader *reader,
                                struct locate_path path, json_t *value)
{
    char error[256];
    const char *user = NULL;
    psd_status status =
        read_text(reader, path, "username", value, "a user name", &user);

    if (status != PSD_OK) {
        return status;
    }
    if (cluster_check_user(user, error, sizeof(error)) != PSD_OK) {
        return config_complain(reader, path, "username: %s", error);
    }
    reader->username = user;
    return PSD_OK;
}

/* "~/key.pem" in the home folder of this user. */
static bool expand_home(const char *text, char *path, size_t size)
{
    const char *home = getenv("HOME");
    const struct passwd *user;

    if (home == NULL || home[0] == '\0') {
        user = getpwuid(getuid());
        home = user == NULL ? NULL : user->pw_dir;
    }
    return home != NULL &&
           (size_t)snprintf(path, size, "%s%s", home, text + 1) < size;
}

/* Beside the cluster file if it is there, else from the working directory. */
static bool find_file(const char *config, const char *text, char *path,
                      size_t size)
{
    const char *slash = strrchr(config, '/');

    if (text[0] == '~' && (text[1] == '/' || text[1] == '\0')) {
        return expand_home(text, path, size);
    }
    if (text[0] != '/' && slash != NULL &&
        (size_t)snprintf(path, size, "%.*s/%s", (int)(slash - config), config,
                         text) < size &&
        access(path, F_OK) == 0) {
        return true;
    }
    return (size_t)snprintf(path, size, "%s", text) < size;
}

static psd_status read_pem_file(struct config_reader *reader,
                                struct locate_path path, json_t *value)
{
    char found[PATH_MAX];
    char whole[PATH_MAX];
    char shown[WORD_SHOW_MAX];
    struct stat about;
    const char *text = NULL;
    int error = 0;
    int fd = -1;
    psd_status status = read_text(reader, path, "pem_file", value,
                                  "the path of a private key", &text);

    if (status != PSD_OK) {
        return status;
    }
    if (!find_file(reader->document->path, text, found, sizeof(found))) {
        error = ENAMETOOLONG;
    } else if (stat(found, &about) != 0) {
        error = errno;
    } else if (!S_ISREG(about.st_mode)) {
        error = S_ISDIR(about.st_mode) ? EISDIR : EINVAL;
    } else {
        fd = open(found, O_RDONLY | O_CLOEXEC);
    }
    if (error == 0 && (fd < 0 || realpath(found, whole) == NULL)) {
        error = errno;
    }
    if (fd >= 0) {
        close(fd);
    }
    if (error != 0) {
        return config_complain(reader, path, "pem_file: cannot read '%s': %s",
                               config_show(text, shown, sizeof(shown)),
                               strerror(error));
    }
    if (strstr(whole, "${") != NULL) {
        return config_complain(reader, path,
                               "pem_file: ssh would expand the ${ of '%s'; "
                               "give the file another name",
                               config_show(text, shown, sizeof(shown)));
    }
    if (reader->username == NULL) {
        reader->username = USER_OF_PEM;
    }
    return keep(reader, whole, &reader->cluster.pem_file);
}

static psd_status read_workers(struct config_reader *reader,
                               struct locate_path path, json_t *value)
{
    return node_read_list(reader, path, "worker_nodes", value, false);
}

static psd_status read_servers(struct config_reader *reader,
                               struct locate_path path, json_t *value)
{
    return node_read_list(reader, path, "server_nodes", value, true);
}

static psd_status read_master(struct config_reader *reader,
                              struct locate_path path, json_t *value)
{
    if (!json_is_string(value)) {
        return config_wrong_type(reader, path, "master_node", value,
                                 "a host name or an address");
    }
    return node_read_host(reader, path, "master_node",
                          json_string_value(value), &reader->cluster.master);
}

static psd_status read_virtualenv(struct config_reader *reader,
                                  struct locate_path path, json_t *value)
{
    const char *text = NULL;
    psd_status status = read_text(reader, path, "virtualenv", value,
                                  "the folder of a virtualenv", &text);

    if (status != PSD_OK) {
        return status;
    }
    if (text[0] != '/' &&
        !(text[0] == '~' && (text[1] == '/' || text[1] == '\0'))) {
        return config_complain(reader, path,
                               "virtualenv must begin with / or ~/, because "
                               "it is looked for on every host; `echo "
                               "$VIRTUAL_ENV` prints it");
    }
    return keep(reader, text, &reader->cluster.virtualenv);
}

static psd_status read_interface(struct config_reader *reader,
                                 struct locate_path path, json_t *value)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@";
    char shown[WORD_SHOW_MAX];
    const char *text = NULL;
    psd_status status = read_text(reader, path, "interface", value,
                                  "the name of a network interface", &text);

    if (status != PSD_OK) {
        return status;
    }
    if (strlen(text) >= IFNAMSIZ || text[0] == '-' ||
        strspn(text, plain) < strlen(text)) {
        return config_complain(reader, path,
                               "interface is '%s', it must be a name such as "
                               "eth0 (`ip link` lists them)",
                               config_show(text, shown, sizeof(shown)));
    }
    return keep(reader, text, &reader->cluster.interface);
}

bool config_is_flag(const json_t *value, bool *on_p)
{
    const char *text = json_string_value(value);

    if (json_is_boolean(value)) {
        *on_p = json_is_true(value);
    } else if (json_is_integer(value) && json_integer_value(value) >= 0 &&
               json_integer_value(value) <= 1) {
        *on_p = json_integer_value(value) == 1;
    } else if (text != NULL &&
               (strcmp(text, "true") == 0 || strcmp(text, "1") == 0)) {
        *on_p = true;
    } else if (text != NULL &&
               (strcmp(text, "false") == 0 || strcmp(text, "0") == 0)) {
        *on_p = false;
    } else {
        return false;
    }
    return true;
}

static psd_status read_flag(struct config_reader *reader,
                            struct locate_path path, const char *name,
                            json_t *value, bool *on_p)
{
    return config_is_flag(value, on_p)
               ? PSD_OK
               : config_complain(reader, path, "%s must be true or false",
                                 name);
}

static psd_status read_roles(struct config_reader *reader,
                             struct locate_path path, json_t *value)
{
    return read_flag(reader, path, "roles", value, &reader->cluster.roles);
}

static psd_status read_old_flags(struct config_reader *reader,
                                 struct locate_path path, json_t *value)
{
    return read_flag(reader, path, "poseidon_flags", value,
                     &reader->cluster.old_flags);
}

static psd_status read_commands(struct config_reader *reader,
                                struct locate_path path, json_t *value)
{
    struct launch_words *commands = &reader->cluster.commands;
    json_t *item;
    size_t i;

    if (!json_is_array(value)) {
        return config_wrong_type(reader, path, "commands", value,
                                 "a list with one command per worker");
    }
    if (json_array_size(value) != reader->cluster.workers) {
        return config_complain(reader, path,
                               "commands has %zu entries for %" PRIu32
                               " workers; there must be one for each",
                               json_array_size(value),
                               reader->cluster.workers);
    }
    commands->words = mem_zalloc_array(json_array_size(value) + 1,
                                       sizeof(*commands->words));
    if (commands->words == NULL) {
        return config_no_memory(reader);
    }
    json_array_foreach(value, i, item) {
        const char *text = json_string_value(item);

        if (text == NULL || text[strspn(text, " \t\r\n")] == '\0' ||
            strlen(text) > LAUNCH_WORD_MAX) {
            return config_complain(reader, locate_step(path, i, false),
                                   "an entry of commands must be a command "
                                   "as text, of at most %u bytes",
                                   LAUNCH_WORD_MAX);
        }
        commands->words[i] = mem_strdup(text);
        if (commands->words[i] == NULL) {
            return config_no_memory(reader);
        }
        commands->count++;
    }
    return PSD_OK;
}

/* ---- showing ------------------------------------------------------------ */

/* "4 on a, user@b (2), [::1]:22": how many, and how many where. */
static void show_seats(const struct cluster *cluster,
                       const struct cluster_seat *seats, uint32_t count,
                       char *text, size_t size)
{
    const char *comma = " on ";
    size_t used = (size_t)snprintf(text, size, "%" PRIu32, count);

    for (uint32_t i = 0; i < cluster->host_count && used < size; i++) {
        char host[CLUSTER_NAME_MAX * 2 + 16];
        char times[16] = "";
        uint32_t here = 0;

        for (uint32_t j = 0; j < count; j++) {
            here += seats[j].host == i ? 1 : 0;
        }
        if (here == 0) {
            continue;
        }
        if (here > 1) {
            snprintf(times, sizeof(times), " (%" PRIu32 ")", here);
        }
        cluster_host_text(&cluster->hosts[i], host, sizeof(host));
        used += (size_t)snprintf(text + used, size - used, "%s%s%s", comma,
                                 host, times);
        comma = ", ";
    }
}

static void show_workers(const struct cluster *cluster, char *text,
                         size_t size)
{
    show_seats(cluster, cluster->worker_seats, cluster->workers, text, size);
}

static void show_servers(const struct cluster *cluster, char *text,
                         size_t size)
{
    show_seats(cluster, cluster->server_seats, cluster->servers, text, size);
}

static void show_master(const struct cluster *cluster, char *text, size_t size)
{
    if (cluster->master == CLUSTER_HERE) {
        snprintf(text, size, "this machine");
    } else {
        cluster_host_text(&cluster->hosts[cluster->master], text, size);
    }
}

static void show_text(const char *value, char *text, size_t size)
{
    snprintf(text, size, "%s", value == NULL ? "" : value);
}

static void show_pem_file(const struct cluster *cluster, char *text,
                          size_t size)
{
    show_text(cluster->pem_file, text, size);
}

static void show_virtualenv(const struct cluster *cluster, char *text,
                            size_t size)
{
    show_text(cluster->virtualenv, text, size);
}

static void show_interface(const struct cluster *cluster, char *text,
                           size_t size)
{
    show_text(cluster->interface, text, size);
}

static void show_roles(const struct cluster *cluster, char *text, size_t size)
{
    show_text(cluster->roles ? "1" : "0", text, size);
}

static void show_old_flags(const struct cluster *cluster, char *text,
                           size_t size)
{
    show_text(cluster->old_flags ? "1" : "0", text, size);
}

static void show_commands(const struct cluster *cluster, char *text,
                          size_t size)
{
    text[0] = '\0';
    if (cluster->commands.count > 0) {
        snprintf(text, size, "%" PRIu32 " of them", cluster->commands.count);
    }
}

/* In the order of reading: a user is known before the hosts, the number of
 * workers before their commands. */
const struct config_key config_keys[] = {
    { .name = "$schema", .read = read_schema },
    { .name = "username", .read = read_username },
    { .name = "pem_file", .read = read_pem_file, .show = show_pem_file },
    { .name = "worker_nodes",
      .required = true,
      .read = read_workers,
      .show = show_workers },
    { .name = "server_nodes",
      .required = true,
      .read = read_servers,
      .show = show_servers },
    { .name = "master_node", .read = read_master, .show = show_master },
    { .name = "virtualenv", .read = read_virtualenv, .show = show_virtualenv },
    { .name = "interface", .read = read_interface, .show = show_interface },
    { .name = "roles", .read = read_roles, .show = show_roles },
    { .name = "poseidon_flags",
      .read = read_old_flags,
      .show = show_old_flags },
    { .name = "commands", .read = read_commands, .show = show_commands },
    { .name = NULL },
};
