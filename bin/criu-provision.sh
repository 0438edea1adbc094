# shellcheck shell=bash
# The second half of bin/criu: CRIU from the distribution's newer suite, unpacked beside the system.

# apt reads the lists of the mirror in directories of its own: no list, package or setting of the system changes.
# Proxies, credentials and the like stay as configured; hooks that refresh other caches do not run.
apt_config() {
  cat <<CONF
Dir::Etc::sourcelist "$TMP/apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State::lists "$TMP/apt/lists";
Dir::State::status "$TMP/apt/status";
Dir::State::extended_states "$TMP/apt/extended_states";
Dir::Cache::archives "$TMP/apt/archives";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
APT::Default-Release "";
APT::Sandbox::User "root";
Acquire::Retries "3";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
CONF
}

apt_apart() {
  local tool=$1
  shift
  "$tool" -c "$TMP/apt/apt.conf" "$@" </dev/null
}

# The newer suites of this distribution, likeliest first; nothing for a distribution without apt.
newer_suites() {
  case $DISTRO in
    debian) echo testing forky unstable ;;
    ubuntu) echo devel resolute ;;
  esac
}

# mirrors : the archives apt takes this distribution's own release from. A third party that calls its suite the same is
# sorted out by the distribution's signature.
mirrors() {
  # shellcheck disable=SC2016
  apt-get -o APT::Get::IndexTargets::ReleaseInfo=false indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' \
    'Created-By: Packages' |
    awk -v codename="$CODENAME" '($1 == codename || $1 ~ /^(old)*(stable|testing|unstable|sid|devel)$/) && $2 == "main" && !seen[$3]++ {print $3}'
}

# provision : prints the path of the new CRIU, or sets REASON.
provision() {
  local mirror suite
  # shellcheck disable=SC1091
  DISTRO=$(. /etc/os-release 2>/dev/null && echo "${ID:-}")
  # shellcheck disable=SC1091
  CODENAME=$(. /etc/os-release 2>/dev/null && echo "${VERSION_CODENAME:-}")
  REASON="this distribution has no newer suite that apt could ask"
  command -v apt-get >/dev/null && [ -n "$(newer_suites)" ] || return 1
  REASON="only root can use one; run this as root"
  [ "$(id -u)" = 0 ] || return 1
  REASON="cannot write to $CRIU_DIR"
  umask 022
  mkdir -p "$CRIU_DIR" 2>/dev/null || return 1
  trusted "$CRIU_DIR/criu" || return 1
  exec 8>"$CRIU_DIR/.lock" && flock 8 || return 1
  # Another call may have provisioned one while this one waited for the lock.
  if choose < <(provisioned); then return 0; fi
  REASON="apt has no source for $DISTRO $CODENAME"
  for mirror in $(mirrors); do
    for suite in $(newer_suites); do
      if provision_from "$mirror" "$suite"; then return 0; fi
      say "$mirror $suite: $REASON"
    done
  done
  return 1
}

# provision_from MIRROR SUITE
provision_from() {
  local mirror=$1 suite=$2 keyring=/usr/share/keyrings/$DISTRO-archive-keyring.gpg components=main version stage
  rm -rf "$TMP/apt" && mkdir -p "$TMP"/apt/{lists,archives}/partial && : >"$TMP/apt/status" && apt_config >"$TMP/apt/apt.conf"
  [ "$DISTRO" != ubuntu ] || components="main universe"
  printf 'deb [target=Packages%s] %s %s %s\n' "$([ ! -e "$keyring" ] || echo " signed-by=$keyring")" \
    "$mirror" "$suite" "$components" >"$TMP/apt/sources.list"
  # A mirror that cannot be reached is only a warning to apt.
  if ! apt_apart apt-get -qq update >"$TMP/out" 2>&1 || grep -q '^W: Failed to fetch' "$TMP/out"; then
    REASON="apt: $(grep -m 1 -E '^(E:|W: Failed)' "$TMP/out")"
    return 1
  fi
  version=$(apt_apart apt-cache madison criu 2>/dev/null | awk -F' *[|] *' 'NR == 1 {print $2}')
  [ -n "$version" ] || { REASON="it has no package criu"; return 1; }
  dpkg --compare-versions "$version" ge "$MIN_VERSION" || { REASON="it has criu $version only"; return 1; }
  [ "$version" != "${REFUSED:-}" ] || { REASON="it has criu $version too"; return 1; }
  say "taking criu $version from $mirror $suite"
  apt_apart apt-get -qq -y --no-install-recommends --download-only install criu >"$TMP/out" 2>&1 ||
    { REASON="apt: $(grep -m 1 '^E:' "$TMP/out")"; return 1; }
  stage=$(mktemp -d "$CRIU_DIR/.stage.XXXXXX") || { REASON="cannot write to $CRIU_DIR"; return 1; }
  if unpack "$stage"; then
    if ! try "$stage/criu"; then
      tried "$mirror $suite" "$(version_of "$stage/criu")"
    elif publish "$stage"; then
      return 0
    fi
  fi
  rm -rf "$stage"
  REFUSED=$version
  return 1
}

# unpack STAGE : the binary, its loader and exactly the libraries that loader resolves for it, and a wrapper named criu.
unpack() {
  local stage=$1 root=$TMP/root deb loader dirs lib
  rm -rf "$root" && mkdir "$root"
  for deb in "$TMP"/apt/archives/*.deb; do
    dpkg -x "$deb" "$root" || { REASON="cannot unpack ${deb##*/}"; return 1; }
  done
  loader=$(find "$root" -name 'ld-linux*.so.*' -type f | head -n 1)
  dirs=$(find "$root" -name 'lib*.so.*' ! -path '*/gconv/*' -printf '%h\n' | sort -u | paste -sd:)
  REASON="the package holds no criu"
  cp "$root/usr/sbin/criu" "$stage/criu.bin" && cp "$loader" "$stage/" || return 1
  "$loader" --inhibit-cache --library-path "$dirs" --list "$stage/criu.bin" >"$TMP/needed" 2>&1 ||
    { REASON="a library is missing: $(grep -m 1 'not found' "$TMP/needed")"; return 1; }
  while read -r lib; do
    case $lib in
      "$root"/*) cp -L "$lib" "$stage/" || { REASON="cannot copy ${lib##*/}"; return 1; } ;;
      *) REASON="${lib##*/} would come from this system"; return 1 ;;
    esac
  done < <(sed -n 's/.* => \(\/.*\) (0x.*/\1/p' "$TMP/needed" | grep -v '/ld-linux[^/]*$')
  # CRIU loads every plugin it finds, and those of the system belong to another version: an empty directory instead.
  mkdir "$stage/plugins"
  cat >"$stage/criu" <<WRAPPER
#!/bin/sh
here=\$(dirname "\$(readlink -f "\$0")")
CRIU_LIBS_DIR=\${CRIU_LIBS_DIR:-\$here/plugins}
export CRIU_LIBS_DIR
exec "\$here/${loader##*/}" --library-path "\$here" "\$here/criu.bin" "\$@"
WRAPPER
  chmod 755 "$stage" "$stage/criu"
}

# publish STAGE : renames it into place, so that no process finds a half-written file. Prints its path.
publish() {
  local version final
  version=$(version_of "$1/criu")
  final=$CRIU_DIR/$version
  REASON="cannot rename $1 to $final"
  rm -rf "$TMP/old"
  [ ! -e "$final" ] || mv "$final" "$TMP/old" || return 1
  mv -T "$1" "$final" || return 1
  # shellcheck disable=SC2034 # bin/criu reads it
  AFRESH=1 # whatever was said of one that had this name before
  verdict provisioned "$final/criu" && printf '%s\n' "$final/criu"
}

# What was seen comes first. Another version does not help if a version that is new enough lacks the rights.
give_up() {
  local how rights="CRIU needs root, and in a container also the capabilities SYS_ADMIN, SYS_PTRACE, NET_ADMIN and CHECKPOINT_RESTORE"
  [ -z "$TRIED" ] || die "${TRIED%.}. $rights. bin/criu --why tries it again."
  case ${DISTRO:-} in
    debian) how="add the testing suite of your mirror or wait for a backport" ;;
    ubuntu) how="add the universe component of the newest release of your mirror" ;;
    fedora | rhel | centos | rocky | almalinux) how="run: dnf install criu" ;;
    arch) how="run: pacman -S criu" ;;
    opensuse* | sles) how="run: zypper install criu" ;;
    alpine) how="run: apk add criu" ;;
    *) how="install criu with this system's package manager" ;;
  esac
  die "no working CRIU could be provided: ${REASON%.}. This kernel ($KERNEL) needs CRIU $MIN_VERSION or later. If the reason is \
not one that you can mend, $how, or build CRIU from its source release (make criu), then set GPUPROCESS_CRIU to the path of the \
binary and run bin/criu --why to see whether it works here. $rights."
}
