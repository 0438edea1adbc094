#!/usr/bin/env bash
# Starts a node in namespaces of its own. The node crashes when the process in LAB/NODE.pid gets SIGKILL.
#   start-node.sh LAB NODE    within the namespaces of the cluster
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
setsid unshare --mount --pid --uts --fork --kill-child --propagation private --mount-proc \
  bash "$here/node.sh" "$1" "$2" >>"$1/log/$2-start" 2>&1 </dev/null &
echo $! >"$1/$2.pid"
