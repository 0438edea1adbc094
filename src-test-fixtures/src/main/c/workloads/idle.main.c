/* A process without CUDA: answers each datagram with how many it has answered, or takes what the datagram names. */
#include <stdio.h>

#include "holds.h"
#include "udp.h"

static unsigned long answered;

static void answer(const char *request, char *reply) {
  ++answered;
  if (!hold(request, reply)) snprintf(reply, ANSWER_SIZE, "%lu", answered);
}

static int idle(const struct options *options) { return serve(options, answer); }

int main(int argc, char **argv) {
  struct options options = parse_options(argc, argv);
  return run(&options, idle);
}
