#!/usr/bin/env bash
# The first process of a node: its own simulated GPU or one of the real ones, memory, state directory and, in version 2, control groups. The disk is that of
# all nodes.
#   node.sh LAB NODE [rooted]
set -euo pipefail
# In a group of its own, this becomes the root of the node's groups; a group whose children have limits has no process itself.
if [ -e /sys/fs/cgroup/cgroup.controllers ] && [ $# = 2 ]; then
  group=/sys/fs/cgroup/slurm_$2
  [ ! -d "$group" ] || find "$group" -depth -type d -exec rmdir {} \;
  mkdir "$group"
  echo "+cpu +cpuset +memory +pids" >/sys/fs/cgroup/cgroup.subtree_control
  echo $$ >"$group/cgroup.procs"
  exec unshare --cgroup bash "$0" "$@" rooted
fi
if [ $# = 3 ]; then
  umount -l /sys/fs/cgroup # slurmd refuses to run while the mount of the whole machine is in the list
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
  # system.slice is where slurmd looks for its group without systemd; Slurm 22.05 neither makes it nor sets its controllers.
  mkdir /sys/fs/cgroup/init.scope /sys/fs/cgroup/system.slice
  echo $$ >/sys/fs/cgroup/init.scope/cgroup.procs
  for each in /sys/fs/cgroup /sys/fs/cgroup/system.slice; do
    echo "+cpu +cpuset +memory +pids" >"$each/cgroup.subtree_control"
  done
fi
hostname "$2"
if [ "$LAB_REAL" = yes ]; then
  # Of the GPUs, only its own. As root the driver makes a device that is missing, unless something else has its name.
  devices=$1/dev
  mount -t tmpfs -o mode=755 tmpfs "$devices"
  cp -a /dev/{null,zero,full,random,urandom,tty,ptmx,fd,stdin,stdout,stderr,nvidiactl,nvidia-uvm*} "$devices"
  cp -a "$(sed -n "s/^NodeName=$2 .*File=//p" /etc/slurm/gres.conf)" "$devices"
  for each in /dev/nvidia[0-9]*; do
    [ -e "$devices/${each#/dev/}" ] || mkdir -p "$devices/${each#/dev/}/none"
  done
  mkdir "$devices/pts" "$devices/shm"
  mount --bind /dev/pts "$devices/pts"
  mount --move "$devices" /dev
else
  mount --bind "$1/gpu-$2" "$1/gpu"
fi
for each in /tmp /dev/shm; do mount -t tmpfs -o mode=1777 tmpfs "$each"; done
mkdir -p /run/gpuprocess
mount -t tmpfs -o mode=700 tmpfs /run/gpuprocess
slurmd -D -N "$2" &
while :; do
  sleep 1000 &
  wait $!
done
