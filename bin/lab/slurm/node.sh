#!/usr/bin/env bash
# The first process of a node: its own simulated GPU, memory and state directory. The disk is that of all nodes.
#   node.sh LAB NODE
set -euo pipefail
hostname "$2"
mount --bind "$1/gpu-$2" "$1/gpu"
for each in /tmp /dev/shm; do mount -t tmpfs -o mode=1777 tmpfs "$each"; done
mkdir -p /run/gpuprocess
mount -t tmpfs -o mode=700 tmpfs /run/gpuprocess
slurmd -D -N "$2" &
while :; do
  sleep 1000 &
  wait $!
done
