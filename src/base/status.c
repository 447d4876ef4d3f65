/* status.c: names and sentences, from the one list in poseidon.h. */
#include "poseidon.h"

const char *psd_status_name(psd_status status)
{
    switch (status) {
#define STATUS_NAME(name, value, text) \
    case name:                         \
        return #name;
        PSD_STATUS_MAP(STATUS_NAME)
#undef STATUS_NAME
    }
    return "unknown";
}

const char *psd_status_text(psd_status status)
{
    switch (status) {
#define STATUS_TEXT(name, value, text) \
    case name:                         \
        return text;
        PSD_STATUS_MAP(STATUS_TEXT)
#undef STATUS_TEXT
    }
    return "a value that is no status";
}

const char *psd_version(void)
{
    return PSD_VERSION_STRING;
}
