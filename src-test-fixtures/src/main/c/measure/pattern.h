/* Data in GPU memory that is different at every place, and its proof, without kernels. Included by the target alone. */
#ifndef MEASURE_PATTERN_H
#define MEASURE_PATTERN_H

#include "calls.h"

/* Allocates and, unless `empty`, fills so many bytes; ends the program if the GPU has no room. */
void pattern_add(size_t bytes, int empty);

/* Copies one in `every` blocks of 2 MiB back, and the first word of each other one, and compares.
 * Writes "ok BYTES SECONDS" or what was wrong. */
void pattern_verify(CUcontext context, unsigned every, char *answer);

#endif
