#!/bin/sh
# Compiles what a launched job needs into the directory given, with gcc and binutils alone: `job`, which starts and guards a job,
# `fork-handler.so`, which is preloaded into one, and `cuda-call`, which makes a call of the driver that needs the job's file;
# and `driver-hook.bin`, the code that divides the driver's copies among threads. Called by Maven.
#
#   build.sh DIRECTORY STAMP
#
# Does nothing if the file STAMP is newer than every source.
set -eu
mkdir -p "$1" "$(dirname "$2")"
out=$(cd "$1" && pwd)
stamp=$(cd "$(dirname "$2")" && pwd)/${2##*/}
cd "$(dirname "$0")"
if [ -e "$stamp" ] && [ -e "$out/job" ] && [ -e "$out/driver-hook.bin" ] && [ -z "$(find . -type f -newer "$stamp")" ]; then exit 0; fi
# Static: it runs where there is another C library, and what is preloaded into the job is not preloaded into it.
gcc -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -static -s -o "$out/job" job/*.c
# Without what came after glibc 2.17: it is loaded into programs of any age.
gcc -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -fPIC -shared -fvisibility=hidden -s -Wl,-z,nodelete -Wl,-z,now \
  -Wl,-soname,gpuprocess-fork-handler.so -o "$out/fork-handler.so" fork_handler.c
# Not static: it loads libcuda.
gcc -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -s -o "$out/cuda-call" cuda_call.c -ldl
# A page of code that runs wherever it is put: it refers to nothing, and is linked by itself.
object=$(mktemp)
gcc -std=c11 -O2 -Wall -Wextra -Werror -fPIC -fvisibility=hidden -ffreestanding -fno-stack-protector -fcf-protection=none \
  -fno-asynchronous-unwind-tables -fno-tree-loop-distribute-patterns -mno-avx -c -o "$object" hook/hook.c
ld -T hook/hook.ld -o "$object.elf" "$object"
objcopy -O binary -j .text "$object.elf" "$out/driver-hook.bin"
rm -f "$object" "$object.elf"
chmod 644 "$out/driver-hook.bin"
touch "$stamp"
