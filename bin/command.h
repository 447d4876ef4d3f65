/*
 * command.h: the subcommands of psd. argv[0] is the subcommand's name; each
 * returns an exit code.
 */
#ifndef PSD_BIN_COMMAND_H
#define PSD_BIN_COMMAND_H

int agent_main(int argc, char **argv);
int master_main(int argc, char **argv);

#endif
