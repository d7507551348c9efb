"""Ways out of a container, as functions of who tries them; each gives back everything that was said."""

import io
import json
import platform
import socket
import tarfile
from collections.abc import Callable
from pathlib import Path

from tests.engine.attacker import REACHED, Attacker, opens, writes_setting

Try = Callable[[Attacker], str]


def by_api(host_config: dict[str, object], do: str) -> Try:
    """A container with this HostConfig, made by the API."""
    return lambda a: a.run(host_config, do)


def by_cli(*options: str, do: str) -> Try:
    """A container by ``docker run`` with these options."""
    return lambda a: a.cli_run(*options, do=do)


def opens_gpu(*options: str, node: str = "") -> Try:
    return lambda a: a.cli_run(*(option.format(a=a) for option in options), do=opens(node or a.gpu.host_path))


def changes_settings(*options: str, before: str = "", directory: str = "/proc/sys") -> Try:
    return lambda a: a.cli_run(*options, do=f"{before}{writes_setting(directory)}")


def sees(path: str) -> str:
    """Says REACHED if the path is there."""
    return f"[ -e {path} ] && echo {REACHED}"


def finds(path: str, *options: str) -> Try:
    return lambda a: a.cli_run(*(option.format(a=a) for option in options), do=sees(path))


def plants(path: str, *options: str) -> Try:
    do = f"echo x >{path}/planted && rm {path}/planted && echo {REACHED}"
    return lambda a: a.cli_run(*(option.format(a=a) for option in options), do=do)


def has_capability(bit: int) -> str:
    """Says REACHED if the capability is in effect: what it does to the kernel is capabilities(7)'s matter."""
    return (
        f"e=$((0x$(grep CapEff /proc/self/status | cut -f2))); [ $((e >> {bit} & 1)) = 1 ] && echo {REACHED}"
    )


def gains(name: str, bit: int) -> Try:
    return lambda a: a.cli_run("--cap-add", name, do=has_capability(bit))


def privileged(body: str, head: str = "POST /containers/create", **options: object) -> Try:
    """A privileged container, spelled in `body`, where %s stands for what names its image and command."""

    def act(a: Attacker) -> str:
        fields = json.dumps({"Image": "busybox", "Cmd": ["sh", "-c", opens(a.gpu.host_path)]})[1:-1]
        return a.run_raw(head, body.replace("%s", fields).encode(), **options)  # type: ignore[arg-type]

    return act


PRIVILEGED = '{%s,"HostConfig":{"Privileged":true}}'


def raw_device(spelling: str) -> Try:
    def act(a: Attacker) -> str:
        device = {"PathOnHost": a.gpu.host_path, "PathInContainer": "/dev/g", "CgroupPermissions": "rwm"}
        fields = json.dumps({"Image": "busybox", "Cmd": ["sh", "-c", opens("/dev/g")]})[1:-1]
        return a.run_raw(
            "POST /containers/create",
            spelling.replace("%s", fields).replace("%d", json.dumps(device)).encode(),
        )

    return act


def cgroup_rule(a: Attacker) -> str:
    major, minor = a.gpu.numbers
    make = f"mknod /g c {major} {minor} && {opens('/g')}"
    return a.cli_run("--device-cgroup-rule", f"c {major}:* rwm", do=make)


def cdi(request: dict[str, object]) -> Try:
    return lambda a: a.run({"DeviceRequests": [request]}, opens("/dev/nvidia0"))


def volume(options: dict[str, str], do: str, driver: str = "local") -> Try:
    def act(a: Attacker) -> str:
        filled = {name: value.format(a=a) for name, value in options.items()}
        made = a.post("/volumes/create", {"Name": "way-out", "Driver": driver, "DriverOpts": filled})
        said = a.cli_run("-v", "way-out:/v", do=do)
        a.docker("volume", "rm", "-f", "way-out")
        return made + said

    return act


def mount(mount: dict[str, object], do: str) -> Try:
    return lambda a: a.run({"Mounts": [json.loads(json.dumps(mount).replace("{files}", str(a.files)))]}, do)


def exec_privileged(a: Attacker) -> str:
    a.docker("run", "-d", "--name", "inmate", "busybox", "sleep", "60")
    said = a.docker("exec", "--privileged", "inmate", "sh", "-c", has_capability(21))
    a.docker("rm", "-f", "inmate")
    return said


def link(target: str, do: str) -> Try:
    def act(a: Attacker) -> str:
        link = a.files / "link"
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        return a.cli_run("-v", f"{link}:/x", do=do)

    return act


def swarm(a: Attacker) -> str:
    said = a.post("/swarm/init", {"ListenAddr": "127.0.0.1:2377", "AdvertiseAddr": "127.0.0.1"})
    reached = REACHED if " 200 " in said.splitlines()[0] else ""
    if reached:
        a.docker("swarm", "leave", "--force")
    return said + reached


def log_driver(a: Attacker) -> str:

    path = a.files / "log.sock"
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as host:
        host.bind(str(path))
        host.settimeout(2)
        said = a.cli_run(
            "--log-driver", "syslog", "--log-opt", f"syslog-address=unixgram://{path}", do="echo out"
        )
        try:
            return said + REACHED if host.recv(1000) else said
        except TimeoutError:
            return said


def ipc(a: Attacker) -> str:

    canary = Path("/dev/shm/gate-canary")
    canary.write_text("x")
    try:
        return finds("/dev/shm/gate-canary", "--ipc", "host")(a)
    finally:
        canary.unlink()


def uts(a: Attacker) -> str:

    return a.cli_run("--uts", "host", do=f'[ "$(hostname)" = "{platform.node()}" ] && echo {REACHED}')


def plugin(a: Attacker) -> str:

    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        settings = {
            "entrypoint": ["/x"],
            "interface": {"types": ["docker.volumedriver/1.0"], "socket": "x.sock"},
            "network": {"type": "host"},
            "linux": {"allowAllDevices": True, "capabilities": ["CAP_SYS_ADMIN"]},
        }
        config = json.dumps(settings).encode()
        entry = tarfile.TarInfo("config.json")
        entry.size = len(config)
        tar.addfile(entry, io.BytesIO(config))
        folder = tarfile.TarInfo("rootfs")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
    said = a.raw(
        "POST /plugins/create?name=way/out", archive.getvalue(), (("Content-Type", "application/x-tar"),)
    )
    reached = REACHED if " 204 " in said.splitlines()[0] else ""
    if reached:
        a.docker("plugin", "rm", "-f", "way/out")
    return said + reached


def update_device(a: Attacker) -> str:
    a.docker("run", "-d", "--name", "inmate", "busybox", "sleep", "60")
    device = {"PathOnHost": a.gpu.host_path, "PathInContainer": "/dev/g", "CgroupPermissions": "rwm"}
    said = a.post("/containers/inmate/update", {"Devices": [device]})
    said += a.docker("exec", "inmate", "sh", "-c", opens("/dev/g"))
    a.docker("rm", "-f", "inmate")
    return said


def build(query: str) -> Try:
    def act(a: Attacker) -> str:

        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            content = f"FROM busybox\nRUN grep way-out /proc/self/cgroup && echo {REACHED}\n".encode()
            entry = tarfile.TarInfo("Dockerfile")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
        return a.raw(f"POST /build?{query}", archive.getvalue(), (("Content-Type", "application/x-tar"),))

    return act


CHUNKED_HEAD = (("Content-Type", "application/json"), ("Transfer-Encoding", "chunked"))


def chunked(a: Attacker) -> str:
    body = a.body(opens(a.gpu.host_path), HostConfig={"Privileged": True})
    return a.run_raw(
        "POST /containers/create", b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body), CHUNKED_HEAD, ""
    )


OVER_1_MIB = {"x": "a" * 1_100_000}


def big_body(a: Attacker) -> str:
    fields = {"Labels": OVER_1_MIB, "HostConfig": {"Privileged": True}}
    return a.run_raw("POST /containers/create", a.body(opens(a.gpu.host_path), **fields))


def hides_large_bodies(a: Attacker) -> bool:
    """Whether the gate is not shown a body of that size, be it harmless.

    Upstream's engines before 29.3.1 hide it (CVE-2026-34040); a distribution's may have the fix under any
    number.
    """
    created = a.raw("POST /containers/create", a.body("true", Labels=OVER_1_MIB))
    hidden = "its body is missing or hidden" in created
    assert hidden or " 201 " in created.splitlines()[0]
    a.finish(created)
    return hidden


def invalid_utf8(a: Attacker) -> str:
    """A privileged container beside bytes that are no UTF-8, which Go replaces."""
    body = a.body(opens(a.gpu.host_path), HostConfig={"Privileged": True}, Labels={"x": "?"})
    return a.run_raw("POST /containers/create", body.replace(b'"?"', b'"\xff"'))


def from_checkpoint(a: Attacker) -> str:
    """A start that would restore a process."""
    said = a.docker("create", "--name", "frozen", "busybox")
    said += a.raw("POST /containers/frozen/start?checkpoint=x")
    return said + a.docker("rm", "-f", "frozen")


def debug_variables(a: Attacker) -> str:
    """What a daemon tells of itself in debug mode."""
    return a.raw("GET /debug/vars")


def copy_through_a_turned_link(a: Attacker) -> str:
    """What a copy out of a container that never ran brings, when a bind's source has become a link."""
    place = a.files / "turned"
    place.mkdir()
    said = a.docker("create", "--name", "copied", "-v", f"{place}:/x", "busybox", "true")
    place.rmdir()
    place.symlink_to("/etc")
    said += a.docker("cp", "copied:/x/passwd", "-")
    place.unlink()
    a.docker("rm", "-f", "copied")
    return said + (REACHED if "root:x:0:0" in said else "")
