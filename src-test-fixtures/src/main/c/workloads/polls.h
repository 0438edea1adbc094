/* Threads that ask the driver again and again whether work is done, each by another call: cuStreamQuery, cuEventQuery,
 * cuCtxSynchronize, cuStreamSynchronize, cuEventSynchronize, cuEventElapsedTime, cuMemGetInfo, and launches with
 * queries. A call that answers anything but success or "not ready" is an error. */
#ifndef WORKLOAD_POLLS_H
#define WORKLOAD_POLLS_H

#define POLL_KINDS 8

/* Starts that many; call cuda_start first. Ends the program with status 3 and a message if that fails. */
void polls_start(int threads);

/* Answers "polls": "COUNT ERRORS" of all threads. False if it was not that. */
int polls_answer(const char *request, char *reply);

#endif
