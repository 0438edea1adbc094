#!/bin/sh
# Compiles everything here into the directory given, with gcc alone: libcuda.so.1, libnvidia-ml.so.1,
# old/libcuda.so.1 (a driver without checkpoint functions), the workloads and simctl. Does nothing if that is newer
# than every source. Called by Maven.
set -eu
out=$1
here=$(dirname "$0")
if [ -e "$out/.built" ] && [ -z "$(find "$here" -type f -newer "$out/.built")" ]; then exit 0; fi
flags="-std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror"
library="$flags -fPIC -shared -fvisibility=hidden -Wl,-Bsymbolic -Wl,-z,nodelete"
mkdir -p "$out/old"
sim=$here/sim
shared="$sim/machine.c $sim/card.c $sim/references.c $sim/faults.c"
driver="$shared $sim/process.c $sim/memory.c $sim/control_target.c $sim/checkpoint_serve.c
  $sim/api_device.c $sim/api_memory.c $sim/api_launch.c $sim/api_errors.c"
gcc $library -Wl,-soname,libcuda.so.1 -o "$out/libcuda.so.1" \
  $driver $sim/control_caller.c $sim/call_file.c $sim/api_checkpoint.c -ldl -lpthread
gcc $library -DSIM_OLD -Wl,-soname,libcuda.so.1 -o "$out/old/libcuda.so.1" $driver -ldl -lpthread
gcc $library -Wl,-soname,libnvidia-ml.so.1 -o "$out/libnvidia-ml.so.1" $shared $sim/api_nvml.c -ldl -lpthread
for program in counter pattern idle simctl; do
  helpers="$here/workloads/udp.c $here/workloads/holds.c $here/workloads/cuda.c $here/workloads/pattern.c"
  [ $program = idle ] && helpers="$here/workloads/udp.c $here/workloads/holds.c"
  [ $program = simctl ] && helpers=""
  gcc $flags -o "$out/$program" "$here/workloads/$program.main.c" $helpers -ldl -lpthread
done
# Static, because some of its processes live in a root directory where there is no other file.
gcc $flags -static -o "$out/zoo" "$here"/workloads/zoo/*.c -lpthread -lrt -lutil
touch "$out/.built"
