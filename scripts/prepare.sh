# shellcheck shell=bash disable=SC2034
# Set-up that scripts/test and scripts/demo share; sourced by them, from the root of the checkout.
#
#   prepare_packages COMMAND:PACKAGE…   installs with apt what is missing, as root
#   prepare_python                      .venv with this checkout in it, and what its development needs
#   prepare_engine [NAME]               a Docker to drive; sets ENGINE_PATH
#
# Each says what takes time and, where it can't go on, one sentence on stderr; the exit status is then 1.

VENV=.venv

# What starting daemons and the image of the tests need. (git and a compiler: nothing here needs them.)
ENGINE_PACKAGES=(runc:runc busybox:busybox-static iptables:iptables nft:nftables ip:iproute2 unshare:util-linux)

say() { printf '%s\n' "$*" >&2; }

stop_because() {
  say "${0##*/}: $*"
  exit 1
}

need_root() {
  [ "$(id -u)" = 0 ] || stop_because "$1"
}

prepare_packages() {
  local pair missing=()
  for pair in "$@"; do
    _is_there "${pair%%:*}" || missing+=("${pair#*:}")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  [ "$(id -u)" = 0 ] || stop_because "missing: ${missing[*]}. As root: apt-get install ${missing[*]}"
  command -v apt-get >/dev/null || stop_because "missing: ${missing[*]}, and there is no apt-get to install them with"
  say "installing ${missing[*]} …"
  _hold_sshd
  if ! _apt update || ! _apt install --yes --no-install-recommends "${missing[@]}"; then
    _release_sshd
    stop_because "apt-get could not install ${missing[*]}"
  fi
  _release_sshd
  for pair in "$@"; do
    _is_there "${pair%%:*}" || stop_because "${pair#*:} is installed, but its program ${pair%%:*} is not to be found"
  done
}

prepare_python() {
  local python stamp
  if ! python=$(_python); then
    prepare_packages "python3.11-or-newer:python3" "python3-venv:python3-venv"
    python=$(_python) || stop_because "Python 3.11 or newer, with its venv module, is needed"
  fi
  stamp=$(cksum <pyproject.toml)
  [ -x $VENV/bin/python ] && [ "$(cat $VENV/installed 2>/dev/null || true)" = "$stamp" ] && return
  say "installing this checkout into $VENV …"
  "$python" -m venv --clear $VENV || stop_because "the virtual environment $PWD/$VENV could not be made"
  $VENV/bin/python -m pip install --quiet --quiet --disable-pip-version-check --editable ".[dev]" ||
    stop_because "pip could not install this checkout and what it needs"
  printf '%s\n' "$stamp" >$VENV/installed
}

prepare_engine() {
  ENGINE_PATH=$($VENV/bin/python -m tests.engine.obtain "$@") || exit 1
}

# Programs of the administrator may not be on the PATH of a plain `su`. A dynamically linked busybox does not do.
_is_there() {
  local program
  case $1 in
  python3.11-or-newer) python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ;;
  python3-venv) python3 -c 'import ensurepip, venv' 2>/dev/null ;;
  *)
    program=$(PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin command -v "$1") || return 1
    [ "$1" != busybox ] || ! head -c 4096 "$program" | grep -aq ld-linux
    ;;
  esac
}

_python() {
  local candidate
  for candidate in python3 python3.11 python3.12 python3.13 python3.14; do
    if "$candidate" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  return 1
}

# Silent, unless it fails: then the end of what it said, packages' own complaints included.
_apt() {
  local said
  said=$(DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" </dev/null 2>&1) && return
  tail -n 20 <<<"$said" >&2
  return 1
}

# The tests start an sshd of their own: installing the package must not open the machine's port 22.
_hold_sshd() {
  SSHD_HELD=
  if [ -d /run/systemd/system ] && ! _is_there sshd; then
    systemctl mask --runtime --quiet ssh.service ssh.socket
    SSHD_HELD=yes
  fi
}

_release_sshd() {
  [ -n "$SSHD_HELD" ] || return 0
  systemctl unmask --runtime --quiet ssh.service ssh.socket
  systemctl disable --quiet ssh.service ssh.socket 2>/dev/null || true
}
