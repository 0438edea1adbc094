#!/bin/sh
# Compiles the measuring programs into the directory given, with gcc alone. Called by bin/gpu-measure, not by Maven.
# shellcheck disable=SC2086
set -eu
out=$1
here=$(dirname "$0")
flags="-std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -pthread"
mkdir -p "$out"
gcc $flags -o "$out/target" "$here/target.main.c" "$here/pattern.c" "$here/workers.c" "$here/calls.c" -ldl
for program in threads area nvml readers room speed handover host; do
  gcc $flags -o "$out/$program" "$here/$program.main.c" "$here/harness.c" "$here/proc.c" "$here/hunt.c" \
    "$here/inject.c" "$here/trace.c" "$here/watch.c" "$here/criu.c" "$here/calls.c" -ldl
done
