/*
 * server.h: `psd server`: a process that plays shards and nothing else. One
 * thread per shard, each with its own loop, model, links and memory; nothing
 * is shared between them but the control thread's messages.
 */
#ifndef PSD_SERVER_SERVER_H
#define PSD_SERVER_SERVER_H

/* Reads the environment that the agent prepared; returns an exit code. */
int server_main(int argc, char **argv);

#endif
