/* The file through which a call reaches its target, on the caller's side. */
#ifndef SIM_CALL_FILE_H
#define SIM_CALL_FILE_H

/* A file state/calls/ID that no other process uses, locked, as large as a call. Returns its descriptor and its
 * id, or -1. */
int call_file_open(unsigned *id);

/* Gives it back. The target must be done with it, or dead. */
void call_file_close(int fd, unsigned id);

#endif
