/* NVML in a workload: a thread that asks it for the free memory of the first GPU, again and again. */
#ifndef WORKLOAD_NVML_H
#define WORKLOAD_NVML_H

/* Answers two requests; returns whether it was one of them:
 *   nvml          initialises NVML and begins to ask it, about every 10 ms
 *   nvml-answers  how many answers have come, and how many errors */
int nvml_answer(const char *request, char *reply);

#endif
