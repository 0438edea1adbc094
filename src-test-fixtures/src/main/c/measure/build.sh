#!/bin/sh
# Compiles the measuring programs into the directory given, with gcc alone. Called by bin/gpu-measure, not by Maven.
# shellcheck disable=SC2086
set -eu
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")"
flags="-std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -pthread"
gcc $flags -o "$out/target" target.main.c pattern.c workers.c calls.c -ldl
for program in threads area nvml readers room speed handover host; do
  gcc $flags -o "$out/$program" $program.main.c harness.c proc.c hunt.c \
    inject.c trace.c watch.c criu.c calls.c -ldl
done
