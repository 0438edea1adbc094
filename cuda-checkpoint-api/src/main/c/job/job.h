/* Starts a job, and guards it. */
#ifndef JOB_H
#define JOB_H

/* Becomes the job; see start.c. */
int start_job(int argc, char **argv);

/* Ends a job with the JVM that has started it; see guard.c. */
int guard_job(int argc, char **argv);

/* With SI_QUEUE, in a signal that every process of a job gets. */
enum { TO_EVERYONE = 0x67706a };

/* Binds the socket that takes requests for snapshots, makes the FIFO that they go into, and names the socket in the
 * environment; see requests.c. */
int listen_for_requests(const char *socket_path, const char *requests_path);

/* Where there is such a socket: becomes the root of a job, closes a descriptor there, and returns in its child. Its own
 * arguments are replaced by the words of the command. */
int begin_to_serve(int to_close, char **arguments, char **words);

#endif
