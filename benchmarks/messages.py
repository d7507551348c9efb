"""The calls that are measured, as the bytes that dockerd writes."""

import base64
import json
from dataclasses import dataclass

Json = dict[str, object]

CREATE_BYTES = 2_000
LARGE_BYTES = 500_000

# What `docker run` of a current client sends: all fields, most of them empty.
_HOST_CONFIG: Json = {
    "Binds": None, "ContainerIDFile": "", "LogConfig": {"Type": "", "Config": {}}, "NetworkMode": "default",
    "PortBindings": {"80/tcp": [{"HostIp": "", "HostPort": "8080"}]},
    "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0}, "AutoRemove": False, "VolumeDriver": "",
    "VolumesFrom": None, "ConsoleSize": [0, 0], "CapAdd": None, "CapDrop": None, "CgroupnsMode": "",
    "Dns": None, "DnsOptions": [], "DnsSearch": [], "ExtraHosts": None, "GroupAdd": None, "IpcMode": "",
    "Cgroup": "", "Links": None, "OomScoreAdj": 0, "PidMode": "", "Privileged": False,
    "PublishAllPorts": False, "ReadonlyRootfs": False, "SecurityOpt": None, "UTSMode": "", "UsernsMode": "",
    "ShmSize": 0, "Isolation": "", "CpuShares": 0, "Memory": 0, "NanoCpus": 0, "CgroupParent": "",
    "BlkioWeight": 0, "BlkioWeightDevice": [], "BlkioDeviceReadBps": [], "BlkioDeviceWriteBps": [],
    "BlkioDeviceReadIOps": [], "BlkioDeviceWriteIOps": [], "CpuPeriod": 0, "CpuQuota": 0,
    "CpuRealtimePeriod": 0, "CpuRealtimeRuntime": 0, "CpusetCpus": "", "CpusetMems": "", "Devices": [],
    "DeviceCgroupRules": None, "DeviceRequests": None, "MemoryReservation": 0, "MemorySwap": 0,
    "MemorySwappiness": -1, "OomKillDisable": False, "PidsLimit": 0, "Ulimits": [], "CpuCount": 0,
    "CpuPercent": 0, "IOMaximumIOps": 0, "IOMaximumBandwidth": 0, "MaskedPaths": None, "ReadonlyPaths": None,
}  # fmt: skip
_HEADERS = {"Content-Type": "application/json", "User-Agent": "Docker-Client/28.5.2 (linux)"}
_TARGET = "/v1.51/containers/create?name=web"


@dataclass(frozen=True)
class Case:
    """Calls that are made one after the other and timed together."""

    name: str
    calls: tuple[bytes, ...]


def create_body(size: int) -> bytes:
    """A container's configuration of `size` bytes; what the fields leave is labels."""
    body: Json = {
        "Hostname": "", "Domainname": "", "User": "", "AttachStdin": False, "AttachStdout": True,
        "AttachStderr": True, "ExposedPorts": {"80/tcp": {}}, "Tty": False, "OpenStdin": False,
        "StdinOnce": False, "Env": ["TZ=Europe/Tallinn"], "Cmd": None, "Image": "nginx:1.27-alpine",
        "Volumes": {}, "WorkingDir": "", "Entrypoint": None, "OnBuild": None, "Labels": {},
        "HostConfig": _HOST_CONFIG, "NetworkingConfig": {"EndpointsConfig": {"default": {}}},
    }  # fmt: skip
    labels: dict[str, str] = {}
    missing = size - len(_encode(body))
    while missing > 0:
        # A label takes its text, four quotes, a colon and a comma.
        text = f"org.example.label-{len(labels)}"
        labels[text] = "x" * max(0, min(60, missing - len(text) - 6))
        missing -= len(text) + len(labels[text]) + 6
    return _encode({**body, "Labels": labels})


def request(body: bytes | None, method: str = "POST", target: str = _TARGET, **more: object) -> bytes:
    """The message about a request with `body`."""
    fields: Json = {"RequestMethod": method, "RequestUri": target, "RequestHeaders": _HEADERS, **more}
    if body is not None:
        fields["RequestBody"] = base64.b64encode(body).decode()
    return _encode(fields)


def response(body: bytes) -> bytes:
    """The message about the response to it, which repeats it."""
    answer = base64.b64encode(_encode({"Id": "0" * 64, "Warnings": []})).decode()
    return request(
        body,
        ResponseStatusCode=201,
        ResponseHeaders={"Content-Type": "application/json"},
        ResponseBody=answer,
    )


def call(route: str, message: bytes) -> bytes:
    """The bytes of the call, as Go's client writes them."""
    return (
        f"POST /AuthZPlugin.{route} HTTP/1.1\r\nHost: plugin.moby.localhost\r\n"
        "User-Agent: Go-http-client/1.1\r\n"
        f"Content-Length: {len(message)}\r\nAccept: application/vnd.docker.plugins.v1.2+json\r\n"
        "Accept-Encoding: gzip\r\n\r\n"
    ).encode() + message


def _encode(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


_SMALL, _LARGE = create_body(CREATE_BYTES), create_body(LARGE_BYTES)
CREATE = Case("create 2 KB", (call("AuthZReq", request(_SMALL)), call("AuthZRes", response(_SMALL))))
CREATE_REQUEST = Case("create 2 KB, request call", CREATE.calls[:1])
RESPONSE = Case("create 2 KB, response call", CREATE.calls[1:])
LARGE = Case("create 500 KB, request call", (call("AuthZReq", request(_LARGE)),))
PING = Case("ping", (call("AuthZReq", request(None, "HEAD", "/_ping")),))
CASES = (CREATE, CREATE_REQUEST, RESPONSE, LARGE, PING)
