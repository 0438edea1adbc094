# shellcheck shell=bash
# The cluster of bin/lab/slurm-demo, which sources this after bin/lib.sh: its programs, its directory, its start and its end.
# LAB_REAL=yes: the GPUs of this machine, and no accounting.

here=$GP_ROOT/bin/lab/slurm
packed=$GP_ROOT/target/slurm-demo
export GPUPROCESS=$GP_ROOT/bin/gpuprocess

slurm_packages=(slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge)

pack() {
  need_jdk
  build_if_stale
  install_slurm
  rm -rf "$packed" && mkdir -p "$packed"
  local files
  files=$(printf '%s\n' /usr/sbin/slurm{ctld,d,stepd}; dpkg -L "${slurm_packages[@]}" | grep -E '^/usr/(s?bin|lib)/' | while read -r each; do [ -d "$each" ] || echo "$each"; done)
  # Of the libraries, what the other machine does not have; never its C library.
  # shellcheck disable=SC2086
  { echo "$files"; ldd $files 2>/dev/null | awk '$2 == "=>" && $3 ~ "^/" { print $3 }' | grep -vE '/lib(c|m|resolv|dl|pthread|rt)\.so'; } |
    sed 's,^/lib/,/usr/lib/,; s,^/,,' | sort -u | tar czf "$packed/slurm.tgz" --dereference -C / -T -
  cp "$GP_ROOT/examples/target/gpuprocess.jar" "$packed"
  du -sh "$packed" >&2
}

# Installed services must not start: the cluster has its own, in namespaces.
install_slurm() {
  local policy=/usr/sbin/policy-rc.d made=
  if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod 755 $policy
    made=yes
  fi
  need_tools slurmctld:slurmctld slurmd:slurmd scontrol:slurm-client munged:munge unshare:util-linux pgrep:procps "$@"
  [ -z "$made" ] || rm -f $policy
}

need_programs() {
  if [ "$LAB_REAL" = yes ]; then
    [ -e /dev/nvidia0 ] || die "there is no GPU here, as /dev/nvidia0 does not exist"
    if [ -e "$packed/slurm.tgz" ] && ! command -v slurmctld >/dev/null; then
      tar xzf "$packed/slurm.tgz" --skip-old-files -C /
    fi
    [ ! -e "$packed/gpuprocess.jar" ] || export GPUPROCESS_JAR=$packed/gpuprocess.jar
    install_slurm
  else
    need_jdk
    build_if_stale
    install_slurm slurmdbd:slurmdbd mariadbd:mariadb-server ip:iproute2
  fi
  # The stand-in for the driver's device memory is a mapping of a loop device; any other, CRIU refuses before a checkpoint too.
  [ "$LAB_REAL" = yes ] || [ -d /sys/block/loop0 ] || modprobe loop 2>/dev/null ||
    die "this needs loop devices, for simulated GPUs: modprobe loop"
  GPUPROCESS_CRIU=$("$GP_ROOT/bin/criu") || die "this needs real CRIU; see above"
  export GPUPROCESS_CRIU
  need_gcc
}

# --- its directory ---

has_user=yes # whether an ordinary user can run CRIU
constrain=no # whether Slurm limits the devices and the memory of jobs
declare -A device=([node1]=/dev/zero [node2]=/dev/zero)
mebibytes=16 # on the GPU, of each trainer

make_directories() {
  lab=$(mktemp -d /var/tmp/gpuprocess-slurm.XXXXXX)
  export LAB=$lab
  # What a job of this cluster has in its environment; on a real node the loader finds the driver.
  environment=(LAB="$lab" GPUPROCESS="$GPUPROCESS" GPUPROCESS_CRIU="$GPUPROCESS_CRIU" JAVA_HOME="${JAVA_HOME:-}" HOME="$HOME")
  if [ "$LAB_REAL" = yes ]; then
    mebibytes=4096
    device[node1]=/dev/nvidia0
    device[node2]=$(find /dev -maxdepth 1 -regex '/dev/nvidia[0-9]+' | sort -V | tail -n 1)
    environment+=(GPUPROCESS_JAR="${GPUPROCESS_JAR:-}")
  else
    environment+=(GPUPROCESS_DRIVER_DIR="$lab/gpu" LD_LIBRARY_PATH="$lab/gpu")
    make_gpus
  fi
  environment+=(LAB_MEBIBYTES="$mebibytes")
  chmod 755 "$lab"
  mkdir "$lab/log" "$lab/shared" "$lab/mysql" "$lab/dev"
  cp -a /etc "$lab/etc"
  # shellcheck disable=SC2034
  make_user || has_user=no
  make_settings
  local workloads=$GP_ROOT/src-test-fixtures/src/main/c/workloads
  gcc -std=c11 -D_GNU_SOURCE -include "$workloads/../old_names.h" -O2 -Wall -Wextra -Werror -I"$workloads" \
    -o "$lab/trainer" "$here/trainer.c" "$workloads/cuda.c" -ldl
}

# alice is an ordinary user, and her CRIU has the capabilities of docs/criu-as-root.md. Returns 1 if files cannot have capabilities here.
make_user() {
  local criu
  criu=$(readlink -f "$GPUPROCESS_CRIU")
  echo "alice:x:4242:4242::$lab/home:/bin/bash" >>"$lab/etc/passwd"
  echo "alice:x:4242:" >>"$lab/etc/group"
  mkdir "$lab/home"
  chown 4242:4242 "$lab/home"
  mkdir -m 1777 "$lab/shared/images"
  chmod 1777 "$lab/shared"
  [ "$LAB_REAL" = yes ] || chmod 1777 "$lab"/gpu-node?/state
  if [ "$(head -c 2 "$criu")" = '#!' ]; then
    cp -a "${criu%/*}" "$lab/criu"
    chmod -R a+rX "$lab/criu"
    gcc -O2 -Wall -Wextra -Werror -DCRIU="\"$lab/criu/${criu##*/}\"" -o "$lab/criu-of-alice" "$here/with-capabilities.c"
  else
    cp "$criu" "$lab/criu-of-alice"
  fi
  setcap cap_checkpoint_restore,cap_sys_ptrace,cap_setpcap+eip "$lab/criu-of-alice" 2>/dev/null
}

make_gpus() {
  local node native=$GP_ROOT/src-test-fixtures/target/classes/dev/gpuprocess/fixtures/native/linux-x86_64
  mkdir "$lab/gpu"
  for node in node1 node2; do
    mkdir -p "$lab/gpu-$node/state"
    cp "$native/libcuda.so.1" "$native/libnvidia-ml.so.1" "$lab/gpu-$node"
    printf 'gpus=1\nmemory=8g\ndriver_version=13000\nseed=%s\n' "$node" >"$lab/gpu-$node/config"
  done
}

make_settings() {
  local file proctrack=proctrack/linuxproc cgroup=cgroup/v1 task=task/none without_systemd=
  local user_signal=SlurmctldParameters=preempt_send_user_signal # before Slurm 23.02
  local cpus=2 memory=1000
  local accounting='slurmdbd\nAccountingStorageHost=127.0.0.1\nAccountingStoragePort=16819\nAccountingStorageTRES=gres/gpu'
  if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    proctrack=proctrack/cgroup cgroup=cgroup/v2 task=task/cgroup constrain=yes without_systemd=IgnoreSystemd=yes
  elif [ -d /sys/fs/cgroup/freezer ]; then
    proctrack=proctrack/cgroup
  fi
  if printf '23.02\n%s\n' "$(slurmctld -V | sed 's/.* //')" | sort -CV; then
    user_signal=PreemptParameters=send_user_signal
    without_systemd+=${without_systemd:+'\nEnableControllers=yes'}
  fi
  if [ "$LAB_REAL" = yes ]; then
    accounting=none
    cpus=$(($(nproc) / 2))
    memory=$(awk '/^MemTotal/ { print int($2 / 3 / 1024) }' /proc/meminfo)
  fi
  # shellcheck disable=SC2034
  follows_tasks=$([ $proctrack = proctrack/cgroup ] && echo yes || echo no)
  mkdir -p "$lab/etc/slurm" "$lab/etc/munge"
  for file in slurm.conf slurmdbd.conf gres.conf cgroup.conf; do
    sed -e "s,@LAB@,$lab," -e "s,@PROCTRACK@,$proctrack," -e "s,@CGROUP@,$cgroup," -e "s,@TASK@,$task," \
      -e "s,@CONSTRAIN@,$constrain," -e "s,@WITHOUT_SYSTEMD@,$without_systemd," -e "s,@USER_SIGNAL@,$user_signal," \
      -e "s,@ACCOUNTING@,$accounting," -e "s,@CPUS@,$cpus," -e "s,@MEMORY@,$memory," -e "s,@GPU1@,${device[node1]}," \
      -e "s,@GPU2@,${device[node2]}," -e "s,@GRACE@,$((60 * GPUPROCESS_LAB_SLOWER))," -e "s,@SILENT@,$((10 * GPUPROCESS_LAB_SLOWER))," \
      "$here/$file" >"$lab/etc/slurm/$file"
  done
  chmod 600 "$lab/etc/slurm/slurmdbd.conf"
  echo "127.0.0.1 localhost controller node1 node2" >"$lab/etc/hosts"
  head -c 1024 /dev/urandom >"$lab/etc/munge/munge.key"
  chmod 700 "$lab/etc/munge"
  chmod 400 "$lab/etc/munge/munge.key"
}

# --- its processes ---

cluster=

start_cluster() {
  local network=--net
  trap end_cluster EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  make_directories
  [ "$LAB_REAL" = no ] || network=
  # shellcheck disable=SC2086
  setsid unshare --mount --pid --uts $network --fork --kill-child --propagation private --mount-proc \
    bash "$here/controller.sh" "$lab" >"$lab/log/controller" 2>&1 </dev/null &
  cluster=$!
  await 10 "the controller has a process" pgrep -P "$cluster"
  controller=$(pgrep -P "$cluster")
  await 120 "the cluster is up or has failed" is_ready_or_over
  [ -e "$lab/ready" ] || { tail -n 5 "$lab/log/controller" >&2; exit 1; }
  await 60 "both nodes are idle" nodes_are_idle || { tail -n 5 "$lab"/log/node? >&2; exit 1; }
  say "a cluster of two nodes is up"
}

end_cluster() {
  local code=$? group
  # The program is compared, so that no other process is killed if the pid is used again. --kill-child ends the rest.
  if [ -n "$cluster" ] && [ "$(cat "/proc/$cluster/comm" 2>/dev/null)" = unshare ]; then
    kill -9 "$cluster"
    wait "$cluster" 2>/dev/null || true
  fi
  for group in /sys/fs/cgroup{,/freezer}/slurm_node{1,2}; do
    [ ! -d "$group" ] || find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null || true
  done
  if [ -n "${GPUPROCESS_LAB_KEEP:-}" ]; then say "logs and output are in $lab"; else rm -rf "$lab"; fi
  exit $code
}

is_ready_or_over() { [ -e "$lab/ready" ] || [ ! -d "/proc/$cluster" ] || [ "$(awk '/^State/ { print $2 }' "/proc/$cluster/status")" = Z ]; }

# slurm COMMAND... : runs a command in the namespaces of the cluster.
slurm() { (cd "$lab/shared" && timeout $((30 * GPUPROCESS_LAB_SLOWER)) nsenter --target "$controller" --mount --pid --uts --net "$@"); }

# first_process NODE : the pid of a node's first process, as it is here. Its parent is `unshare`, whose child it is.
first_process() {
  local each
  for each in $(pgrep -f "^bash $here/node.sh $lab $1( rooted)?\$"); do
    [ "$(cat "/proc/$(awk '/^PPid/ { print $2 }' "/proc/$each/status")/comm")" != unshare ] || echo "$each"
  done
}

await() { # await SECONDS WHAT COMMAND...
  local end=$((SECONDS + $1 * GPUPROCESS_LAB_SLOWER))
  until "${@:3}" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || { say "not within $1 s: $2"; return 1; }
    sleep 0.2
  done
}

nodes_are_idle() { [ "$(slurm sinfo -h -N -p low -o %T | grep -c idle)" = 2 ]; }

# Not `sinfo -n`, which in Slurm 24.11 may tell the state of the other node.
node_is() { slurm sinfo -h -N -p low -o '%N %T' | grep -q "^$2 .*$1"; }
