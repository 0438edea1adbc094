# shellcheck shell=bash
# Shared by the scripts in bin/: what they say, where things are, and what they install when it is missing.
# Source it after `set -euo pipefail`.
#
# Every script begins with a comment that says what it does and how it is called, and ends with one of these exit codes:
#   0  done, and what it checks is as it should be; --help
#   1  not done, or something is wrong: it says what in one sentence
#   2  called in a way that it does not understand: one line with its usage

# The checkout this file belongs to.
# shellcheck disable=SC2034
GP_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)

# Some service managers and containers start without HOME; the password file knows it.
if [ -z "${HOME:-}" ]; then
  HOME=$(getent passwd "$(id -u)" | cut -d: -f6)
  export HOME="${HOME:-/}"
fi

# All explanations go to stderr: stdout belongs to the script's result.
say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() { say "$*"; exit 1; }

# The comment at the head of the script, which is what --help prints.
head_comment() { sed -n '2,/^[^#]/{s/^# //p;s/^#$//p}' "$0"; }

# The ways to call it are set in by two more blanks there; what follows four blanks explains them.
usage() {
  local ways
  ways=$(head_comment | sed -n 's/^  \(bin\/.*\)/\1/p' | sed 's/    .*//' | paste -sd'|' | sed 's/|/ | /g')
  printf 'usage: %s\n' "$ways" >&2
  exit 2
}

# A script prints its help before it does anything.
case ${1:-} in
  -h | --help)
    head_comment
    exit 0
    ;;
esac

no_arguments() { [ $# = 0 ] || usage; }

# integer WORD [LEAST] : whether it is a number of at most 18 digits, and not below LEAST (0 if not said).
integer() { [[ $1 =~ ^-?[0-9]{1,18}$ ]] && [ "$1" -ge "${2:-0}" ]; }

# split_command WORD... : sets OWN to the words before --, and COMMAND to those after it; bin/verify if there is no --.
# shellcheck disable=SC2034
split_command() {
  OWN=()
  while [ $# != 0 ] && [ "$1" != -- ]; do
    OWN+=("$1")
    shift
  done
  [ $# != 1 ] || usage
  COMMAND=("${@:2}")
  [ $# != 0 ] || COMMAND=("$GP_ROOT/bin/verify")
}

# Where provisioned things live. The Java side computes the same directory.
gp_home() { printf '%s\n' "${GPUPROCESS_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/gpuprocess}"; }

# apt_install PACKAGE... : installs what is named, refreshing the package lists once per run.
apt_install() {
  [ -z "${GP_INSTALL_NOTHING:-}" ] || die "this needs $* (names as in Debian); install them first, as this script installs nothing"
  command -v apt-get >/dev/null ||
    die "this needs $* (names as in Debian); there is no apt-get here, install them with this system's package manager"
  [ "$(id -u)" = 0 ] || die "this needs the packages $*; run as root once, or: sudo apt-get install $*"
  apt_refresh
  say "installing $*"
  local log
  log=$(mktemp)
  DEBIAN_FRONTEND=noninteractive apt-get -y --no-install-recommends -o DPkg::Lock::Timeout=300 \
    install "$@" </dev/null >"$log" 2>&1 || {
    tail -n 40 "$log" >&2
    die "apt-get could not install $*; what it said is above, and all of it in $log"
  }
  rm -f "$log"
}

# A third-party source that cannot be reached must not stop an install that does not need it, so a failure is only said.
apt_refresh() {
  [ -z "${GP_APT_FRESH:-}" ] || return 0
  GP_APT_FRESH=1
  say "refreshing the package lists"
  apt-get -qq update </dev/null >&2 || say "apt-get update reported errors; going on with the lists there are"
}

apt_knows() { [ -n "$(apt-cache show --no-all-versions "$1" 2>/dev/null)" ]; }

# java_major HOME : the feature version of the Java installation at HOME, 0 when it is none.
java_major() {
  local v
  v=$(sed -n 's/^JAVA_VERSION="\([0-9]*\).*/\1/p' "$1/release" 2>/dev/null) || true
  printf '%s\n' "${v:-0}"
}

# jdk_list : "MAJOR HOME" for each JDK of 17 or newer on this machine, lowest first.
jdk_list() {
  local home javac
  javac=$(command -v javac || true)
  {
    for home in "${JAVA_HOME:-}" /usr/lib/jvm/* "${javac:+$(dirname "$(readlink -f "$javac")")/..}"; do
      if [ -n "$home" ] && [ -x "$home/bin/javac" ]; then
        home=$(readlink -f "$home")
        printf '%s %s\n' "$(java_major "$home")" "$home"
      fi
    done
  } | awk '$1 >= 17' | sort -u -k2 | sort -n -k1,1
}

# need_jdk : exports JAVA_HOME, a JDK of 17 or newer. The caller's JAVA_HOME wins if it is one; then the lowest found.
need_jdk() {
  local found
  if [ -n "${JAVA_HOME:-}" ] && [ -x "$JAVA_HOME/bin/javac" ] && [ "$(java_major "$JAVA_HOME")" -ge 17 ]; then
    export JAVA_HOME
    return 0
  fi
  found=$(jdk_list | head -n 1)
  if [ -z "$found" ]; then
    if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] && [ -z "${GP_INSTALL_NOTHING:-}" ]; then apt_refresh; fi
    if apt_knows openjdk-17-jdk-headless; then
      apt_install openjdk-17-jdk-headless
    else
      apt_install default-jdk-headless
    fi
    found=$(jdk_list | head -n 1)
  fi
  [ -n "$found" ] || die "no JDK of 17 or newer was found; install one and set JAVA_HOME"
  export JAVA_HOME=${found#* }
}

need_maven() { command -v mvn >/dev/null || apt_install maven; }

# A compiler may be installed without the C library's headers; apt can leave it so.
need_gcc() {
  echo '#include <stdlib.h>' | gcc -E -o /dev/null - 2>/dev/null || apt_install gcc libc6-dev
}

# need_tools PROGRAM:PACKAGE... : installs the packages of the programs that are missing. A shell's builtin does not count.
need_tools() {
  local pair missing=()
  for pair in "$@"; do
    [ -n "$(type -P "${pair%%:*}")" ] || missing+=("${pair#*:}")
  done
  [ ${#missing[@]} = 0 ] || apt_install "${missing[@]}"
}

# build_if_stale : the jars, without tests and checks, if a source is newer than the last build that succeeded.
build_if_stale() {
  local stamp=$GP_ROOT/target/built started
  if [ -e "$stamp" ] && [ -z "$(sources_newer_than "$stamp")" ] && class_path_complete; then return 0; fi
  need_maven
  need_gcc
  say "building; this takes about a minute, and some more the first time, when Maven downloads what it needs"
  { mkdir -p "$GP_ROOT/target" && started=$(mktemp "$GP_ROOT/target/started.XXXXXX"); } 2>/dev/null ||
    die "the jars have to be built, and this user cannot write to $GP_ROOT/target"
  if ! (cd "$GP_ROOT" && mvn -B -Dgpuprocess.fast package </dev/null 2>&1) | build_progress "$GP_ROOT/target/build.log"; then
    rm -f "$started"
    grep -m 20 -F '[ERROR]' "$GP_ROOT/target/build.log" >&2 || true
    die "the build failed; all of what it said is in target/build.log"
  fi
  mv "$started" "$stamp"
}

# build_progress LOG : keeps what Maven says there, without escape codes, and shows how far it is.
build_progress() {
  sed -u 's/\x1b\[[0-9;]*m//g' | tee "$1" | awk -v name="${0##*/}" '
    / Downloaded from / && ++files % 50 == 0 { printf "%s:   %d files downloaded\n", name, files; fflush() }
    match($0, /^\[INFO\] Building [^\/].* \[[0-9]+\/[0-9]+\]$/) { sub(/^\[INFO\] Building /, ""); printf "%s:   %s\n", name, $0; fflush() }' >&2
}

modules() { sed -n 's/.*<module>\(.*\)<\/module>.*/\1/p' "$GP_ROOT/pom.xml"; }

sources_newer_than() {
  local module
  find "$GP_ROOT/pom.xml" -newer "$1"
  for module in $(modules); do
    # directories too, for a file that was deleted
    find "$GP_ROOT/$module" -path "$GP_ROOT/$module/target" -prune -o \( -type f -o -path "$GP_ROOT/$module/src/*" \) -newer "$1" -print -quit
  done
}

# class_path : the examples and all they need, as the build wrote it.
class_path() {
  printf '%s:%s\n' "$(find "$GP_ROOT/examples/target" -maxdepth 1 -name 'examples-*.jar' ! -name '*-sources.jar' ! -name '*-javadoc.jar')" \
    "$(cat "$GP_ROOT/examples/target/classpath.txt")"
}

class_path_complete() {
  local jar parts
  [ -e "$GP_ROOT/examples/target/classpath.txt" ] || return 1
  IFS=: read -ra parts < <(class_path)
  for jar in "${parts[@]}"; do
    [ -e "$jar" ] || return 1
  done
}

# survival_main CLASS ARG... : ends as a main class of the survival tests does, with real CRIU, in a session of its own.
survival_main() {
  local class_path=$GP_ROOT/criu-driver/target/test-classpath.txt
  need_jdk
  GPUPROCESS_CRIU=$("$GP_ROOT/bin/criu") || die "this needs real CRIU; see above"
  export GPUPROCESS_CRIU
  [ -e "$class_path" ] || rm -f "$GP_ROOT/target/built"
  build_if_stale
  exec setsid --wait "$JAVA_HOME/bin/java" --enable-native-access=ALL-UNNAMED -Dorg.slf4j.simpleLogger.defaultLogLevel=error \
    -cp "$GP_ROOT/criu-driver/target/test-classes:$GP_ROOT/criu-driver/target/classes:$(cat "$class_path")" \
    "dev.gpuprocess.survival.$1" "${@:2}"
}
