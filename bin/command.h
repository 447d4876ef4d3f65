/*
 * command.h: the subcommands of psd. argv[0] is the subcommand's name; each
 * returns an exit code.
 */
#ifndef PSD_BIN_COMMAND_H
#define PSD_BIN_COMMAND_H

int agent_main(int argc, char **argv);
int attach_main(int argc, char **argv);
int logs_main(int argc, char **argv);
int master_main(int argc, char **argv);
int status_main(int argc, char **argv);
int stop_main(int argc, char **argv);
int check_main(int argc, char **argv);
int probe_main(int argc, char **argv);

#endif
