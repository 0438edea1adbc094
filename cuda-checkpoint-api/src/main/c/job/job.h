/* Starts and guards a job: a launched process with its descendants. */
#ifndef JOB_H
#define JOB_H

/* Executes the command; see start.c. */
int start_job(int argc, char **argv);

/* Ends a job when the JVM that has started it ends; see guard.c. */
int guard_job(int argc, char **argv);

/* Holds the terminal of a restored job; see hold.c. */
int hold_terminal(int argc, char **argv);

/* The SI_QUEUE value of a signal that is sent to every process of a job. */
enum { TO_EVERYONE = 0x67706a };

/* Binds the socket for snapshot requests, makes the FIFO to the controller, and names the socket in the environment; see
 * requests.c. */
int listen_for_requests(const char *socket_path, const char *requests_path);

/* If there is such a socket, becomes the root of a job, closes a descriptor, and returns in its child. The arguments of the
 * root are replaced by the words of the command. */
int begin_to_serve(int to_close, char **arguments, char **words);

#endif
