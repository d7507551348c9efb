"""Devices: only by their CDI names, only with a grant."""

import re
from collections.abc import Iterator, Sequence
from typing import TypedDict

from plugin.context import Context
from plugin.denial import Denial

_LOOKS_LIKE_CDI = re.compile(r"[A-Za-z][\w.-]*/[A-Za-z][\w.-]*=[\w.:-]+", re.ASCII)


class Device(TypedDict, total=False):
    """An entry of Devices."""

    PathOnHost: str | None


class DeviceRequest(TypedDict, total=False):
    """An entry of DeviceRequests."""

    Driver: str | None
    Count: int | None
    DeviceIDs: list[str] | None
    Capabilities: list[list[str]] | None
    Options: dict[str, str] | None


def raw_device(devices: Sequence[Device], context: Context) -> Iterator[Denial]:
    """Device nodes by path."""
    for position, device in enumerate(devices):
        path = device.get("PathOnHost") or ""
        field = f"HostConfig.Devices[{position}]"
        if _LOOKS_LIKE_CDI.fullmatch(path):
            # The docker command before 25 and Compose before 2.30 take a CDI name for a path.
            yield Denial(
                "raw-device",
                f"this docker client is too old to ask for {path}",
                "Update it: docker to 25, docker compose to 2.30, or newer; the request itself is right",
                field,
            )
        else:
            yield Denial(
                "raw-device", f"--device {path[:200]} is refused on this machine", use_cdi(context), field
            )


def device_cgroup_rule(rules: Sequence[str], context: Context) -> Iterator[Denial]:
    """Rules for the device cgroup: with MKNOD, which is a default capability, a rule is a device."""
    yield Denial(
        "device-cgroup-rule",
        f"--device-cgroup-rule '{rules[0][:100]}' is refused on this machine",
        use_cdi(context),
        "HostConfig.DeviceCgroupRules",
    )


def device_request(requests: Sequence[DeviceRequest], context: Context) -> Iterator[Denial]:
    """Device requests that are not plain CDI, and CDI names without a grant."""
    for position, request in enumerate(requests):
        field = f"HostConfig.DeviceRequests[{position}]"
        names = request.get("DeviceIDs") or []
        if not _is_plain(request):
            yield Denial(
                "device-request-form",
                "--gpus and device reservations are refused on this machine",
                use_cdi(context),
                field,
            )
        elif context.grants_problem:
            yield Denial(
                "grants-unreadable",
                "the grants of this machine cannot be read, so no device is admitted",
                "Tell an operator of this machine: renet gate check says what is wrong",
                field,
                tuple(names),
            )
        else:
            for name in names:
                if name not in context.granted:
                    yield not_granted(name, context, f"{field}.DeviceIDs")


def device_request_on_update(_requests: Sequence[DeviceRequest], context: Context) -> Iterator[Denial]:
    """A running container gets no device, by whatever name."""
    yield Denial(
        "device-request-form",
        "a device cannot be given to a container that exists",
        f"Make the container anew: {use_cdi(context)}",
        "DeviceRequests",
    )


def _is_plain(request: DeviceRequest) -> bool:
    # dockerd chooses CDI by the driver's name alone; an empty one never selects it (28.5). Whatever else is
    # given means something to another driver, or may come to.
    names = request.get("DeviceIDs")
    return (
        request.get("Driver") == "cdi"
        and not request.get("Count")
        and not request.get("Capabilities")
        and not request.get("Options")
        and bool(names)
        and all(names or ())
    )


def not_granted(name: str, context: Context, field: str) -> Denial:
    """The denial that names the missing grant and the command that gives it."""
    if name in context.available:
        fix = f"An operator can give it: rdc repo gpu grant {context.repository} --device {name}"
    else:
        fix = f"No device here has that name{_devices_here(context)}"
    shown = name if len(name) <= 200 else name[:200] + "…"
    return Denial(
        "device-not-granted", f"repository {context.repository} has no grant for {shown}", fix, field, (name,)
    )


def use_cdi(context: Context) -> str:
    """What to do instead of every other way to a device."""
    return f"Use {cdi_form(context)}"


def cdi_form(context: Context) -> str:
    """How a device is asked for: with a granted name where there is one, and the names of this machine."""
    example = min(context.granted, default=next(iter(context.available), "VENDOR/CLASS=NAME"))
    return f"--device {example}{_devices_here(context)}"


def _devices_here(context: Context) -> str:
    if not context.available:
        return " (this machine has no devices)"
    shown = ", ".join(context.available[:12])
    return f" (devices here: {shown}{', …' if len(context.available) > 12 else ''})"


def device_names(requests: Sequence[DeviceRequest]) -> tuple[str, ...]:
    """The CDI names that plain requests hold."""
    return tuple(name for request in requests for name in request.get("DeviceIDs") or ())
