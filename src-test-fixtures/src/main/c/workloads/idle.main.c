/* A process without CUDA: answers each datagram with how many it has answered, or takes what the datagram names. */
#include <stdio.h>

#include "holds.h"
#include "udp.h"

static unsigned long answered;

static void answer(const char *request, char *reply) {
  ++answered;
  if (!hold(request, reply)) snprintf(reply, ANSWER_SIZE, "%lu", answered);
}

int main(int argc, char **argv) {
  struct options options = parse_options(argc, argv);
  return serve(&options, answer);
}
