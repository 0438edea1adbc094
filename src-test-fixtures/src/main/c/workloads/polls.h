/* Threads that make calls which the driver's lock does not block, each another one: cuStreamQuery, cuEventQuery,
 * cuCtxSynchronize, cuStreamSynchronize, cuEventSynchronize, cuEventElapsedTime, cuMemGetInfo, launches with queries,
 * cuModuleUnload, and cuMemAllocAsync where the driver has it. A call that returns anything but success or "not ready" is
 * an error. */
#ifndef WORKLOAD_POLLS_H
#define WORKLOAD_POLLS_H

#define POLL_KINDS 10

/* Starts that many; call cuda_start first. Ends the program with status 3 and a message if that fails. */
void polls_start(int threads);

/* Answers "polls": "COUNT ERRORS" of all threads. False if it was not that. */
int polls_answer(const char *request, char *reply);

#endif
