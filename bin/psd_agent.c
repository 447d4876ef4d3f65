/* psd_agent.c: `psd agent`: guard and agent in one, speaking frames on stdin
 * and stdout, whether those are a socket of psd_run or the pipes of ssh. */
#include "base/log.h"
#include "command.h"
#include "launch/exit_code.h"
#include "launch/guard.h"

#include <unistd.h>

int agent_main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1 || isatty(STDIN_FILENO)) {
        fprintf(stderr, "psd agent: started by psd_run, not by hand; it reads "
                        "what to do from its input\n");
        return EXIT_CODE_USAGE;
    }
    return guard_run();
}
