/* The pattern: N MiB of GPU memory in which every byte is known from a seed.
 *   verify      "ok N bytes", or "bad at OFFSET"
 *   touch SEED  writes the pattern of another seed
 *   alloc MIB   that much more memory, filled
 *   hold MIB    that much more memory, neither filled nor verified, to be in the way
 *   free        gives all of it back
 *   polls       see polls.h: with --pollers N
 *   gpu, memory see cuda.h */
#include <stdio.h>

#include "cuda.h"
#include "pattern.h"
#include "polls.h"
#include "udp.h"

static void answer(const char *request, char *reply) {
  if (!cuda_answer(request, reply) && !pattern_answer(request, reply) && !polls_answer(request, reply))
    snprintf(reply, ANSWER_SIZE, "not understood: %.100s", request);
}

int main(int argc, char **argv) {
  struct options options = parse_options(argc, argv);
  cuda_start(options.gpu);
  pattern_start(options.mebibytes < 0 ? 64 : options.mebibytes, options.seed);
  polls_start(options.pollers);
  return serve(&options, answer);
}
