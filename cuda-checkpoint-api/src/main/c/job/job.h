/* Starts a process, and guards it. */
#ifndef JOB_H
#define JOB_H

/* Executes the command; see start.c. */
int start_job(int argc, char **argv);

/* Kills a process when the JVM that started it exits; see guard.c. */
int guard_job(int argc, char **argv);

/* With SI_QUEUE, in a signal that is sent to all processes of a tree. */
enum { TO_EVERYONE = 0x67706a };

/* Binds the socket that accepts requests for snapshots, creates the FIFO to which they are written, and names the socket in
 * the environment; see requests.c. */
int listen_for_requests(const char *socket_path, const char *requests_path);

/* If there is such a socket: becomes the root, closes a descriptor in it, and returns in its child. Its own arguments are
 * replaced by the words of the command. */
int begin_to_serve(int to_close, char **arguments, char **words);

#endif
