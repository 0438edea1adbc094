/* Starts a job, and guards it. */
#ifndef JOB_H
#define JOB_H

/* Becomes the job; see start.c. */
int start_job(int argc, char **argv);

/* Ends a job with the JVM that has started it; see guard.c. */
int guard_job(int argc, char **argv);

#endif
