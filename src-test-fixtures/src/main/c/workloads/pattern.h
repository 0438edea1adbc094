/* GPU memory in which every byte is known from a seed. */
#ifndef WORKLOAD_PATTERN_H
#define WORKLOAD_PATTERN_H

#include <stdint.h>

/* Takes the memory and fills it; ends the program with a message if that fails. Call cuda_start first. */
void pattern_start(long mebibytes, uint64_t seed);

/* Answers "verify", "touch SEED", "alloc MIB", "hold MIB" and "free", see pattern.main.c. False if it was not that. */
int pattern_answer(const char *request, char *reply);

#endif
