#!/bin/sh
# Compiles everything here into the directory given, with gcc alone: libcuda.so.1, libnvidia-ml.so.1,
# old/libcuda.so.1 (a driver without checkpoint functions), the workloads, simctl and a stand-in for
# CRIU's amdgpu_plugin.so. Called by Maven.
#
#   build.sh DIRECTORY [STAMP]
#
# Does nothing if the file STAMP (DIRECTORY/.built if not said) is newer than every source.
# shellcheck disable=SC2086
set -eu
mkdir -p "$1/old"
out=$(cd "$1" && pwd)
stamp=${2:-$out/.built}
mkdir -p "$(dirname "$stamp")"
stamp=$(cd "$(dirname "$stamp")" && pwd)/${stamp##*/}
# From here on sources have names without blanks, wherever the checkout is.
cd "$(dirname "$0")"
if [ -e "$stamp" ] && [ -e "$out/attributes" ] && [ -z "$(find . -type f -newer "$stamp")" ]; then exit 0; fi
# strtol and the like by the names that every C library has: since glibc 2.38 _GNU_SOURCE gives them others.
flags="-std=c11 -D_GNU_SOURCE -include old_names.h -O2 -Wall -Wextra -Werror"
library="$flags -fPIC -shared -fvisibility=hidden -Wl,-Bsymbolic -Wl,-z,nodelete -Wl,-z,relro -Wl,-z,now"
sim=sim
shared="$sim/machine.c $sim/card.c $sim/references.c $sim/faults.c $sim/neighbour.c"
driver="$shared $sim/process.c $sim/memory.c $sim/notifier.c $sim/save_area.c $sim/control_target.c $sim/checkpoint_serve.c $sim/job_file.c
  $sim/api_device.c $sim/api_memory.c $sim/api_launch.c $sim/api_errors.c"
gcc $library -Wl,-soname,libcuda.so.1 -o "$out/libcuda.so.1" \
  $driver $sim/control_caller.c $sim/call_file.c $sim/api_checkpoint.c -ldl -lpthread
gcc $library -DSIM_OLD -Wl,-soname,libcuda.so.1 -o "$out/old/libcuda.so.1" $driver -ldl -lpthread
gcc $library -Wl,-soname,libnvidia-ml.so.1 -o "$out/libnvidia-ml.so.1" $shared $sim/api_nvml.c -ldl -lpthread
for program in counter pattern insiders job idle simctl; do
  helpers="workloads/udp.c workloads/holds.c workloads/cuda.c workloads/pattern.c
    workloads/nvml.c workloads/polls.c"
  [ $program = counter ] && helpers="$helpers workloads/loaders.c workloads/churn.c workloads/settings.c"
  [ $program = insiders ] && helpers="workloads/udp.c workloads/cuda.c workloads/interrupted.c"
  [ $program = idle ] && helpers="workloads/udp.c workloads/holds.c"
  [ $program = simctl ] && helpers=""
  gcc $flags -o "$out/$program" workloads/$program.main.c $helpers -ldl -lpthread
done
gcc $flags -o "$out/hostile" workloads/hostile.main.c workloads/udp.c workloads/holds.c workloads/cuda.c workloads/pattern.c \
  -ldl -lpthread
gcc $flags -o "$out/captive" workloads/captive.main.c -lpthread
gcc $flags -o "$out/holder" workloads/holder.main.c workloads/udp.c workloads/holds.c workloads/churn.c \
  -lpthread
gcc $flags -o "$out/rocm" amd/rocm.main.c amd/machine.c workloads/udp.c -lpthread
# Linked with nothing, because CRIU may bring a C library of its own.
gcc $flags -fPIC -shared -fvisibility=hidden -fno-stack-protector -nostdlib -o "$out/amdgpu_plugin.so" \
  amd/plugin.c amd/machine.c
# Static, because some of its processes have a root directory without other files.
gcc $flags -static -o "$out/zoo" workloads/zoo/*.c -lpthread -lrt -lutil
gcc $flags -o "$out/attributes" workloads/attributes/*.c -ldl -lpthread -lrt -lutil
touch "$stamp"
