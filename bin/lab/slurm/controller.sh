#!/usr/bin/env bash
# The first process of the cluster's namespaces: munge, slurmctld, and for accounting MariaDB and slurmdbd. All of it ends with this process.
#   controller.sh LAB    the directory that slurm-demo has made
set -euo pipefail
lab=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)

await() {
  local end=$((SECONDS + 60 * GPUPROCESS_LAB_SLOWER))
  until "$@" 2>/dev/null; do
    [ $SECONDS -lt $end ] || { echo "not in time: $*" >&2; exit 1; }
    sleep 0.2
  done
}
listens() { (: <"/dev/tcp/127.0.0.1/$1"); }

hostname controller
if [ "$LAB_REAL" = no ]; then
  ip link set lo up
  # Slurm finds no address where there are loopback addresses only.
  ip address add 192.0.2.1/32 dev lo
fi
mount --bind "$lab/etc" /etc
# Mounts that a new /run would cover, such as the one for host memory, are still in the list of mounts.
awk '$5 ~ "^/run/" { print $5 }' /proc/self/mountinfo | tac | while read -r each; do umount -l "$each" 2>/dev/null || true; done
mkdir -p /var/lib/munge
for each in /run /var/spool /var/log /var/lib/munge; do mount -t tmpfs -o mode=755 tmpfs "$each"; done
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
munge=munge
id $munge >/dev/null 2>&1 || munge=root # its package is not installed
mkdir -p /run/munge /run/mysqld /var/log/munge /var/spool/slurmctld
chown -R $munge: /etc/munge /run/munge /var/log/munge /var/lib/munge
chmod 711 /var/lib/munge
setpriv --reuid $munge --regid $munge --clear-groups munged

account_jobs() {
  chown mysql: /run/mysqld "$lab/mysql"
  mariadb-install-db --user=mysql --datadir="$lab/mysql" --skip-test-db --auth-root-authentication-method=socket >"$lab/log/mysql-install" 2>&1
  mariadbd --user=mysql --datadir="$lab/mysql" --socket=/run/mysqld/mysqld.sock --skip-networking \
    --innodb-buffer-pool-size=64M >"$lab/log/mariadb" 2>&1 &
  await mariadb-admin --socket=/run/mysqld/mysqld.sock --silent ping
  slurmdbd
  await listens 16819
  local each
  for each in "cluster lab" "account users Cluster=lab" "user root Account=users"; do
    # shellcheck disable=SC2086
    sacctmgr -i add $each >>"$lab/log/sacctmgr" 2>&1
  done
}
[ "$LAB_REAL" = yes ] || account_jobs
slurmctld
await listens 16817
for node in node1 node2; do bash "$here/start-node.sh" "$lab" "$node"; done
: >"$lab/ready"
while :; do
  sleep 1000 &
  wait $! # orphans become children of this process
done
