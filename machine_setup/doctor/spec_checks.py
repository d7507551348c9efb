"""Checks of the machine's CDI specs against the machine as it is now."""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from machine_setup.detect.nvidia import driver_version
from machine_setup.doctor.facts import MachineFacts
from machine_setup.doctor.finding import Finding
from plugin.builds import AUTO_ALLOW
from spec.model import DeviceNode
from spec.registry import SpecFile

_SETUP = "renet setup"
#: The driver's libraries carry its version in their names: libcuda.so.535.129.03
_LIBRARY = re.compile(r"/lib(?:cuda|nvidia-[a-z-]+)\.so\.(\d+\.\d+(?:\.\d+)?)$")


def specs_valid(facts: MachineFacts) -> Iterator[Finding]:
    """Whether every spec counts: dockerd skips an invalid one without a word to the tenant."""
    for problem in facts.specs.errors:
        yield Finding.failure(
            "",
            "specs-valid",
            str(problem),
            why="dockerd skips it, and its devices are not to be had",
            fix=f"renet cdi validate {problem.file or facts.layout.cdi_dir}; {_SETUP} writes ours anew",
        )
    if not facts.specs.errors:
        count = len(facts.specs.names())
        yield Finding.ok(
            "", "specs-valid", f"{count} device{'' if count == 1 else 's'} in {facts.layout.cdi_dir}"
        )


def no_auto_allow(facts: MachineFacts) -> Iterator[Finding]:
    """Whether a spec gives its devices to builds unasked, with every entitlement closed (seen on 28.5)."""
    found = False
    for file in (*facts.specs.files, *facts.runtime_specs.files):
        annotated = [file.spec.annotations, *(device.annotations for device in file.spec.devices)]
        if any(AUTO_ALLOW in annotations for annotations in annotated):
            found = True
            yield Finding.failure(
                "",
                "no-auto-allow",
                f"{file.path} offers its devices to builds by {AUTO_ALLOW}",
                why="BuildKit gives them to any build, unseen by the gate; the gate refuses builds meanwhile",
                fix=f"renet cdi close {file.path}",
            )
    if not found:
        yield Finding.ok("", "no-auto-allow", "no spec offers its devices to builds")


def nodes_current(facts: MachineFacts) -> Iterator[Finding]:
    """Whether each spec's device nodes are the machine's: a stale number goes into containers silently."""
    wrong = False
    for file in facts.specs.files:
        problems = dict.fromkeys(filter(None, map(_node_problem, _nodes(file))))
        for problem in problems:
            wrong = True
            yield Finding.failure(
                "",
                "nodes-current",
                f"{file.path}: {problem}",
                why="a container gets another device than the grant says, or does not start",
                fix=_SETUP,
            )
    if not wrong:
        yield Finding.ok("", "nodes-current", "the specs' device nodes are the machine's")


def _nodes(file: SpecFile) -> Iterator[DeviceNode]:
    yield from file.spec.edits.device_nodes
    for device in file.spec.devices:
        yield from device.edits.device_nodes


def _node_problem(node: DeviceNode) -> str:
    try:
        state = Path(node.source).lstat()
    except OSError:
        return f"{node.source} is not there"
    if stat.S_ISCHR(state.st_mode):
        kind = "cu"
    elif stat.S_ISBLK(state.st_mode):
        kind = "b"
    else:
        return f"{node.source} is no device node"
    if node.type and node.type not in kind:
        return f"{node.source} is of type {kind[0]}, the spec says {node.type}"
    numbers = os.major(state.st_rdev), os.minor(state.st_rdev)
    if node.major is not None and (node.major, node.minor or 0) != numbers:
        return f"{node.source} is {numbers[0]}:{numbers[1]}, the spec says {node.major}:{node.minor or 0}"
    return ""


def mounts_there(facts: MachineFacts) -> Iterator[Finding]:
    """Whether what specs mount into containers is on the machine."""
    sources = {
        (injection.file.path, mount.host_path)
        for injection in facts.specs.devices.values()
        for mount in injection.edits.mounts
    }
    missing = [(path, source) for path, source in sorted(sources) if not Path(source).exists()]
    for path, source in missing:
        fix = "systemctl start nvidia-persistenced" if "persistenced" in source else _SETUP
        yield Finding.failure(
            "",
            "mounts-there",
            f"{path} mounts {source}, which is not there",
            why="containers with its devices do not start",
            fix=fix,
        )
    if not missing:
        yield Finding.ok("", "mounts-there", "what the specs mount is there")


def driver_current(facts: MachineFacts) -> Iterator[Finding]:
    """Whether the specs' libraries are those of the driver that runs."""
    running = driver_version(facts.layout.root)
    if running is None:
        return
    stale = {
        (file.path, match[1])
        for file in facts.specs.files
        for edits in (file.spec.edits, *(device.edits for device in file.spec.devices))
        for mount in edits.mounts
        if (match := _LIBRARY.search(mount.host_path)) and match[1] != running
    }
    for path, version in sorted(stale):
        yield Finding.failure(
            "",
            "driver-current",
            f"{path} is for driver {version}, and {running} runs",
            why="programs fail with a driver/library version mismatch",
            fix=_SETUP,
        )
    if not stale:
        yield Finding.ok("", "driver-current", f"the specs are for the running driver {running}")


def specs_protected(facts: MachineFacts) -> Iterator[Finding]:
    """Whether only root can write a spec: its hooks run on the host as root."""
    directory = facts.layout.cdi_dir
    open_paths = [
        path for path in (directory, *(file.path for file in facts.specs.files)) if _is_others(path)
    ]
    for path in open_paths:
        yield Finding.failure(
            "",
            "specs-protected",
            f"{path} can be written by others than root",
            why="a spec's hooks run as root on the host: who writes a spec owns the machine",
            fix=f"chown root:root {path} && chmod go-w {path}",
        )
    if not open_paths:
        yield Finding.ok("", "specs-protected", f"{directory} is root's alone")


def _is_others(path: Path) -> bool:
    try:
        state = path.stat()
    except OSError:
        return False
    return state.st_uid != 0 or bool(state.st_mode & 0o022)


def no_runtime_specs(facts: MachineFacts) -> Iterator[Finding]:
    """Whether /var/run/cdi shadows the machine's specs for daemons that read it."""
    shadowing = sorted({str(file.path) for file in facts.runtime_specs.files})
    if shadowing:
        yield Finding.warning(
            "",
            "no-runtime-specs",
            f"there are specs in /var/run/cdi: {', '.join(shadowing)}",
            why="they override the machine's for every daemon that reads it, and no grant covers them",
            fix=f"rm {' '.join(shadowing)}; {_SETUP} lets nvidia-cdi-refresh write to /etc/cdi",
        )
    else:
        yield Finding.ok("", "no-runtime-specs", "no spec in /var/run/cdi")


CHECKS = (
    specs_valid,
    no_auto_allow,
    nodes_current,
    mounts_there,
    driver_current,
    specs_protected,
    no_runtime_specs,
)
