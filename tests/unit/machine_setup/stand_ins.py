"""Stand-ins for the programs that cannot be had in a test: NVIDIA's, the package managers, systemctl.

Each records how it was called and answers with the wording, the streams and the exit status of the real
one, as NVIDIA's, Debian's, Fedora's and openSUSE's documentation and bug reports show them. What they do to
the machine they do below the test's root. ``fail`` makes one fail in a way that the real one does.
"""

from dataclasses import dataclass
from pathlib import Path

from machine_setup.programs import Programs
from tests.unit.machine_setup.trees import UUID_0, UUID_1

_RECORD = """\
#!/bin/sh
here={state}
root={root}
name=$(basename "$0")
{{ printf '%s' "$name"; printf '\\t%s' "$@"; printf '\\n'; }} >>"$here/calls"
[ -z "${{STAND_IN_KILLS:-}}" ] || [ "$STAND_IN_KILLS" != "$name" ] || kill -9 "$PPID"
failure=$(cat "$here/$name.fails" 2>/dev/null)
"""

_NVIDIA_SMI = """\
case "$failure" in
mismatch) echo "Failed to initialize NVML: Driver/library version mismatch"
  echo "NVML library version: 555.42"; exit 18;;
no-driver) echo "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. \
Make sure that the latest NVIDIA driver is installed and running."; echo; exit 9;;
no-devices) echo "No devices were found"; exit 6;;
lost) cat "$here/smi.csv" | head -n 1
  echo "Unable to determine the device handle for GPU1: 0000:41:00.0: Unknown Error"; exit 255;;
hang) exec sleep 600;;
esac
cat "$here/smi.csv"
"""

_NVIDIA_CTK = """\
said() { echo "time=\\"2026-01-31T10:00:00Z\\" level=$1 msg=\\"$2\\"" >&2; }
version=$(cat "$here/ctk.version")
if [ "$1" = --version ]; then
  echo "NVIDIA Container Toolkit CLI version $version"
  echo "commit: f8daa5e26de9fd7eb79259040b6dd5a52060048c"
  exit 0
fi
[ "$1 $2" = "cdi generate" ] || { said error "No help topic for '$1'"; exit 3; }
shift 2
output= mode=auto
for word; do
  case "$word" in
  --output=*) output=${word#--output=};;
  --mode=*) mode=${word#--mode=};;
  *) echo "Incorrect Usage: flag provided but not defined: ${word%%=*}" >&2
     said error "flag provided but not defined: ${word%%=*}"; exit 1;;
  esac
done
mode=${NVIDIA_CTK_CDI_GENERATE_MODE:-$mode}
case "$mode" in auto|nvml|wsl|csv|management) ;; *) said error "invalid discovery mode: $mode"; exit 1;; esac
case "$failure" in
nvml) said info "Auto-detected mode as \\\\\\"nvml\\\\\\""
  said error "failed to generate CDI spec: failed to create device CDI specs: failed to initialize NVML: \
ERROR_LIB_RM_VERSION_MISMATCH"; exit 1;;
invalid) printf 'cdiVersion: 0.5.0\\nkind: nvidia.com/gpu\\ndevices: []\\n' >"$output"; exit 0;;
nothing) exit 0;;
hang) exec sleep 600;;
esac
said info "Auto-detected mode as \\\\\\"$mode\\\\\\""
spec=$here/spec.yaml
[ "$mode" != wsl ] || spec=$here/spec-wsl.yaml
cp "$spec" "$output"
chmod 644 "$output"
said info "Generated CDI spec with version 0.5.0"
"""

_INSTALL = """\
installed() {
  mkdir -p "$root/usr/lib/systemd/system" "$root/etc/nvidia-container-toolkit" "$root/run/cdi"
  cp "$here/nvidia-ctk" "$here/bin/nvidia-ctk"
  cat "$here/ctk.newest" >"$here/ctk.version"
  : >"$root/usr/lib/systemd/system/nvidia-cdi-refresh.service"
  [ -e "$root/etc/nvidia-container-toolkit/nvidia-cdi-refresh.env" ] ||
    printf '# For example:\\n# NVIDIA_CTK_CDI_OUTPUT_FILE_PATH=/var/run/cdi/nvidia.yaml\\n' \
      >"$root/etc/nvidia-container-toolkit/nvidia-cdi-refresh.env"
  mkdir -p "$root/var/run/cdi"
  cp "$here/spec.yaml" "$root/var/run/cdi/nvidia.yaml"
}
"""

_APT_GET = (
    _INSTALL
    + """\
url=https://nvidia.github.io/libnvidia-container/stable/deb/amd64
case "$1" in
update)
  if [ "$failure" = offline ]; then
    echo "Err:1 $url  InRelease"; echo "  Could not resolve 'nvidia.github.io'"
    case "$*" in *APT::Update::Error-Mode=any*) level=E status=100;; *) level=W status=0;; esac
    echo "$level: Failed to fetch $url/InRelease  Could not resolve 'nvidia.github.io'" >&2
    echo "$level: Some index files failed to download. They have been ignored, or old ones used instead." >&2
    exit $status
  fi
  : >"$here/apt.lists";;
install)
  if [ "$failure" = locked ]; then
    echo "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 4711 (unattended-upgr)" >&2
    exit 100
  fi
  if [ -e "$root/var/lib/dpkg/updates/0001" ]; then
    echo "E: dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct the problem. " >&2
    exit 100
  fi
  for word; do package=$word; done
  [ -e "$here/apt.lists" ] || { echo "E: Unable to locate package $package" >&2; exit 100; }
  installed;;
esac
"""
)

_DPKG = 'case "$1 $2" in "--configure -a") rm -f "$root"/var/lib/dpkg/updates/*;; esac\n'

_DNF = (
    _INSTALL
    + """\
if [ "$failure" = offline ]; then
  echo "Errors during downloading metadata for repository 'nvidia-container-toolkit':" >&2
  echo "Error: Failed to download metadata for repo 'nvidia-container-toolkit': Cannot download repomd.xml: \
Cannot download repodata/repomd.xml: All mirrors were tried" >&2
  exit 1
fi
for word; do package=$word; done
[ -e "$root/etc/yum.repos.d/nvidia-container-toolkit.repo" ] ||
  { echo "Error: Unable to find a match: $package" >&2; exit 1; }
installed
"""
)

_ZYPPER = (
    _INSTALL
    + """\
for word; do package=$word; done
case "$*" in
*refresh*)
  if [ "$failure" = offline ]; then
    echo "Repository 'nvidia-container-toolkit' is invalid." >&2
    echo "Valid metadata not found at specified URL" >&2
    exit 4
  fi;;
*install*)
  [ -e "$root/etc/zypp/repos.d/nvidia-container-toolkit.repo" ] ||
    { echo "Package '$package' not found." >&2; exit 104; }
  installed;;
esac
"""
)

_SYSTEMCTL = """\
units=$root/etc/systemd/system
case "$1" in
try-restart) [ ! -e "$here/active/$2" ] || date +%s >"$here/active/$2"; exit 0;;
daemon-reload)
  rm -rf "$here/loaded"; mkdir "$here/loaded"
  cp "$units"/*.service "$units"/*.timer "$units"/*.path "$units"/*.slice "$here/loaded/" 2>/dev/null
  exit 0;;
show)
  for word; do unit=$word; done
  case "$*" in *ActiveState*)
    if [ -e "$here/active/$unit" ]; then
      echo ActiveState=active; echo "ActiveEnterTimestamp=@$(cat "$here/active/$unit")"
    else echo ActiveState=inactive; echo ActiveEnterTimestamp=; fi
    exit 0;;
  esac
  if [ ! -e "$here/loaded/$unit" ]; then
    if [ -e "$units/$unit" ]; then echo LoadState=loaded; else echo LoadState=not-found; fi
    echo NeedDaemonReload=yes
  elif cmp -s "$here/loaded/$unit" "$units/$unit"; then echo LoadState=loaded; echo NeedDaemonReload=no
  else echo LoadState=loaded; echo NeedDaemonReload=yes; fi;;
enable)
  [ -e "$units/$2" ] || { echo "Failed to enable unit: Unit file $2 does not exist." >&2; exit 1; }
  mkdir -p "$units/multi-user.target.wants"
  ln -sf "$units/$2" "$units/multi-user.target.wants/$2"
  echo "Created symlink $units/multi-user.target.wants/$2 → $units/$2." >&2;;
is-enabled) echo disabled; exit 1;;
esac
"""

_PROGRAMS = {
    "nvidia-smi": _NVIDIA_SMI,
    "nvidia-ctk": _NVIDIA_CTK,
    "apt-get": _APT_GET,
    "dpkg": _DPKG,
    "dnf": _DNF,
    "zypper": _ZYPPER,
    "systemctl": _SYSTEMCTL,
}

SPEC = f"""\
---
cdiVersion: 0.5.0
containerEdits:
  deviceNodes:
  - path: /dev/nvidiactl
  - path: /dev/nvidia-uvm
  - path: /dev/nvidia-uvm-tools
  env:
  - NVIDIA_VISIBLE_DEVICES=void
  hooks:
  - args:
    - nvidia-cdi-hook
    - update-ldcache
    - --folder
    - /usr/lib/x86_64-linux-gnu
    hookName: createContainer
    path: /usr/bin/nvidia-cdi-hook
  mounts:
  - containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.535.129.03
    hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.535.129.03
    options:
    - ro
    - nosuid
    - nodev
    - bind
devices:
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
    - path: /dev/dri/card0
    - path: /dev/dri/renderD128
  name: "0"
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia1
  name: "1"
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
    - path: /dev/dri/card0
    - path: /dev/dri/renderD128
  name: {UUID_0}
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia1
  name: {UUID_1}
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
    - path: /dev/nvidia1
    - path: /dev/dri/card0
    - path: /dev/dri/renderD128
  name: all
kind: nvidia.com/gpu
"""

SPEC_WSL = """\
---
cdiVersion: 0.3.0
containerEdits:
  hooks:
  - args:
    - nvidia-cdi-hook
    - create-symlinks
    - --link
    - /usr/lib/wsl/drivers/nv_dispi.inf_amd64_0af7c1b6f4ad2bd9/nvidia-smi::/usr/bin/nvidia-smi
    hookName: createContainer
    path: /usr/bin/nvidia-cdi-hook
  mounts:
  - containerPath: /usr/lib/wsl/lib/libdxcore.so
    hostPath: /usr/lib/wsl/lib/libdxcore.so
    options:
    - ro
    - nosuid
    - nodev
    - bind
devices:
- containerEdits:
    deviceNodes:
    - path: /dev/dxg
  name: all
kind: nvidia.com/gpu
"""

SMI_LINES = (
    f"0, {UUID_0}, NVIDIA GeForce RTX 3090, 24576, 535.129.03, 00000000:01:00.0\n"
    f"1, {UUID_1}, NVIDIA A100-SXM4-40GB, 40960, 535.129.03, 00000000:41:00.0\n"
)


@dataclass(frozen=True)
class StandIns:
    """The programs of one machine: those in ``bin`` are installed."""

    directory: Path
    root: Path

    @classmethod
    def of(cls, directory: Path, root: Path, *installed: str) -> "StandIns":
        """Stand-ins in `directory` for the machine below `root`, with the programs `installed`."""
        self = cls(directory, root)
        (directory / "bin").mkdir(parents=True)
        head = _RECORD.format(state=directory, root=root)
        for name, body in _PROGRAMS.items():
            self._script(directory / name, head + body)
        for name in installed:
            self.install(name)
        self.write("smi.csv", SMI_LINES)
        self.write("spec.yaml", SPEC)
        self.write("spec-wsl.yaml", SPEC_WSL)
        self.write("ctk.version", "1.18.0")
        self.write("ctk.newest", "1.18.1")
        return self

    @property
    def programs(self) -> Programs:
        """Where to find them."""
        return Programs((str(self.directory / "bin"),))

    @property
    def environ(self) -> dict[str, str]:
        """The environment of a ``renet`` that works on this machine."""
        return {"REDIACC_PROGRAMS": str(self.directory / "bin"), "REDIACC_ROOT": str(self.root)}

    def install(self, name: str) -> None:
        """Put the program `name` on the machine."""
        self._script(self.directory / "bin" / name, (self.directory / name).read_text())

    def remove(self, name: str) -> None:
        """Take the program `name` from the machine."""
        (self.directory / "bin" / name).unlink()

    def write(self, name: str, text: str) -> None:
        """What a stand-in answers from: smi.csv, spec.yaml, spec-wsl.yaml, ctk.version, ctk.newest."""
        (self.directory / name).write_text(text)

    def fail(self, program: str, how: str) -> None:
        """Have `program` fail as `how` says; the empty text mends it."""
        self.write(f"{program}.fails", how)

    def calls(self, program: str = "") -> list[list[str]]:
        """How the programs were called, in order; only `program` where it is given."""
        log = self.directory / "calls"
        lines = log.read_text().splitlines() if log.exists() else []
        calls = [line.split("\t") for line in lines]
        return [call for call in calls if program in {"", call[0]}]

    def start(self, unit: str, when: int) -> None:
        """Have the `unit` run since `when`, in seconds of the epoch."""
        (self.directory / "active").mkdir(exist_ok=True)
        self.write(f"active/{unit}", f"{when}\n")

    def forget(self) -> None:
        """Forget the calls so far."""
        (self.directory / "calls").unlink(missing_ok=True)

    @staticmethod
    def _script(path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)
