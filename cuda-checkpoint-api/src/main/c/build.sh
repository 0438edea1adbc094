#!/bin/sh
# Compiles the native parts into the directory given, with gcc and binutils alone: `job`, which starts and guards a job,
# `fork-handler.so`, which is preloaded into it, `cuda-call`, which makes a driver call that needs the job file,
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
# Static, since it may run with another C library, and so that the libraries preloaded into the job are not loaded into it.
gcc -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -static -s -o "$out/job" job/*.c
# Without functions newer than glibc 2.17, since it is loaded into old programs too.
gcc -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -fPIC -shared -fvisibility=hidden -s -Wl,-z,nodelete -Wl,-z,now \
  -Wl,-soname,gpuprocess-fork-handler.so -o "$out/fork-handler.so" fork_handler.c
# Not static, since it loads libcuda.
gcc -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -s -o "$out/cuda-call" cuda_call.c -ldl
# A page of position-independent code, without relocations and libraries.
object=$(mktemp)
gcc -std=c11 -O2 -Wall -Wextra -Werror -fPIC -fvisibility=hidden -ffreestanding -fno-stack-protector -fcf-protection=none \
  -fno-asynchronous-unwind-tables -fno-tree-loop-distribute-patterns -mno-avx -c -o "$object" hook/hook.c
ld -T hook/hook.ld -o "$object.elf" "$object"
objcopy -O binary -j .text "$object.elf" "$out/driver-hook.bin"
rm -f "$object" "$object.elf"
chmod 644 "$out/driver-hook.bin"
touch "$stamp"
