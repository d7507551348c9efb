"""What the CDI specification demands of a spec's values, and of the version it declares."""

from collections.abc import Iterator

from spec.model import ContainerEdits, Device, DeviceNode, Hook, IntelRdt, Mount, NetDevice, Spec
from spec.names import device_problem, kind_problem
from spec.problems import Problem, Where

VERSIONS = ("0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
# The library still knows these two, only to say that they are too old.
_TOO_OLD = ("0.1.0", "0.2.0")
HOOK_NAMES = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
NODE_TYPES = ("b", "c", "u", "p")
_LONGEST_CLOS_ID = 4095

_EDITS = "containerEdits"


def validate(spec: Spec) -> Iterator[Problem]:
    """What is wrong with `spec`, in the reference library's order; nothing if it is valid."""
    yield from _version(spec)
    problem = kind_problem(spec.kind)
    if problem:
        yield Problem("bad-kind", f"{spec.kind!r} {problem}", "a kind is vendor/class", ("kind",))
    yield from _edits(spec.edits, (_EDITS,))
    if not spec.devices:
        yield Problem("no-devices", "no devices", "a spec has at least one", ("devices",))
    seen: set[str] = set()
    for index, device in enumerate(spec.devices):
        yield from _device(device, ("devices", index))
        if device.name in seen:
            place = ("devices", index, "name")
            yield Problem("duplicate-device", f"{device.name!r} again", "names differ within a spec", place)
        seen.add(device.name)


def _version(spec: Spec) -> Iterator[Problem]:
    version = spec.version.removeprefix("v")
    where = ("cdiVersion",)
    known = f"the versions are {', '.join(VERSIONS)}"
    if version in _TOO_OLD:
        yield Problem("version-too-low", f"{spec.version!r}", known, where)
    elif version not in VERSIONS:
        yield Problem("bad-version", f"{spec.version!r}" if spec.version else "no version", known, where)
    else:
        needed, place, what = minimum_version(spec)
        if VERSIONS.index(version) < VERSIONS.index(needed):
            yield Problem(
                "version-too-low", f"{what} in a spec of version {version}", f"needs {needed}", place
            )


def minimum_version(spec: Spec) -> tuple[str, Where, str]:
    """The lowest version that a spec with these contents may declare, and what demands it, where."""
    needs = (("0.3.0", (), "nothing new"), *_needs(spec))
    return max(needs, key=lambda need: VERSIONS.index(need[0]))


def _needs(spec: Spec) -> Iterator[tuple[str, Where, str]]:
    if spec.annotations:
        yield "0.6.0", ("annotations",), "annotations"
    if "." in spec.kind.partition("/")[2]:
        yield "0.6.0", ("kind",), "a dot in the class"
    yield from _edits_need(spec.edits, (_EDITS,))
    for index, device in enumerate(spec.devices):
        where: Where = ("devices", index)
        if device.annotations:
            yield "0.6.0", (*where, "annotations"), "annotations"
        if device.name[:1].isdigit():
            yield "0.5.0", (*where, "name"), "a device name that starts with a digit"
        yield from _edits_need(device.edits, (*where, _EDITS))


def _edits_need(edits: ContainerEdits, where: Where) -> Iterator[tuple[str, Where, str]]:
    for index, mount in enumerate(edits.mounts):
        if mount.type:
            yield "0.4.0", (*where, "mounts", index, "type"), "a mount's type"
    for index, node in enumerate(edits.device_nodes):
        if node.host_path:
            yield "0.5.0", (*where, "deviceNodes", index, "hostPath"), "a device node's hostPath"
    if edits.additional_gids:
        yield "0.7.0", (*where, "additionalGids"), "additionalGids"
    rdt = edits.intel_rdt
    if rdt:
        yield "0.7.0", (*where, "intelRdt"), "intelRdt"
        if rdt.schemata is not None:
            yield "1.1.0", (*where, "intelRdt", "schemata"), "schemata"
        if rdt.enable_monitoring:
            yield "1.1.0", (*where, "intelRdt", "enableMonitoring"), "enableMonitoring"
    if edits.net_devices:
        yield "1.1.0", (*where, "netDevices"), "netDevices"


def _device(device: Device, where: Where) -> Iterator[Problem]:
    problem = device_problem(device.name)
    if problem:
        yield Problem("bad-device-name", f"this {problem}", "", (*where, "name"))
    if device.edits.is_empty():
        yield Problem("empty-edits", "nothing in it", "a device has edits of its own", (*where, _EDITS))
    yield from _edits(device.edits, (*where, _EDITS))


def _edits(edits: ContainerEdits, where: Where) -> Iterator[Problem]:
    yield from _env(edits.env, (*where, "env"), "bad-env")
    for index, node in enumerate(edits.device_nodes):
        yield from _device_node(node, (*where, "deviceNodes", index))
    for index, hook in enumerate(edits.hooks):
        yield from _hook(hook, (*where, "hooks", index))
    for index, mount in enumerate(edits.mounts):
        yield from _mount(mount, (*where, "mounts", index))
    if edits.intel_rdt:
        yield from _intel_rdt(edits.intel_rdt, (*where, "intelRdt", "closID"))
    yield from _net_devices(edits.net_devices, (*where, "netDevices"))


def _env(env: tuple[str, ...], where: Where, code: str) -> Iterator[Problem]:
    for index, variable in enumerate(env):
        if variable.find("=") <= 0:
            yield Problem(code, f"{variable!r}", "a variable is NAME=VALUE", (*where, index))


def _device_node(node: DeviceNode, where: Where) -> Iterator[Problem]:
    if not node.path:
        yield Problem("bad-node", "no path", "a device node has a path", where)
    if node.type and node.type not in NODE_TYPES:
        rule = f"the types are {', '.join(NODE_TYPES)}"
        yield Problem("bad-node", f"the type {node.type!r}", rule, (*where, "type"))
    if set(node.permissions) - set("rwm"):
        rule = "permissions are made of r, w and m"
        yield Problem("bad-node", f"the permissions {node.permissions!r}", rule, (*where, "permissions"))


def _hook(hook: Hook, where: Where) -> Iterator[Problem]:
    if hook.name not in HOOK_NAMES:
        rule = f"the hooks are {', '.join(HOOK_NAMES)}"
        yield Problem("bad-hook", f"{hook.name!r}", rule, (*where, "hookName"))
    if not hook.path:
        yield Problem("bad-hook", "no path", "a hook has a path", where)
    yield from _env(hook.env, (*where, "env"), "bad-hook")


def _mount(mount: Mount, where: Where) -> Iterator[Problem]:
    for name, value in (("hostPath", mount.host_path), ("containerPath", mount.container_path)):
        if not value:
            yield Problem("bad-mount", f"no {name}", f"a mount has a {name}", where)


def _intel_rdt(rdt: IntelRdt, where: Where) -> Iterator[Problem]:
    """A class is a directory of resctrl: a file name, or ``/`` for the root class."""
    clos_id = rdt.clos_id
    if clos_id == "/":
        return
    too_long = len(clos_id.encode("utf-8", "surrogatepass")) > _LONGEST_CLOS_ID
    if too_long or clos_id in {".", ".."} or "/" in clos_id or "\n" in clos_id:
        rule = f"must be a file name of at most {_LONGEST_CLOS_ID} bytes, or /"
        yield Problem("bad-rdt", f"{clos_id[:60]!r}", rule, where)


def _net_devices(devices: tuple[NetDevice, ...], where: Where) -> Iterator[Problem]:
    hosts: set[str] = set()
    names: set[str] = set()
    for index, device in enumerate(devices):
        place = (*where, index)
        for key, value, seen in (
            ("hostInterfaceName", device.host_interface_name, hosts),
            ("name", device.name, names),
        ):
            if not value:
                yield Problem("bad-netdev", f"no {key}", f"a network device has a {key}", place)
            elif value in seen:
                yield Problem("bad-netdev", f"{value!r} again", f"a {key} is there once", (*place, key))
            seen.add(value)
