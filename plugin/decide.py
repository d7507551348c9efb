"""The decision: a request and what is known about its repository, to allow or deny. Pure.

A request passes the same stations every time: its target becomes an operation (`plugin.routes`), its body
becomes fields (`plugin.decode`, `plugin.bodies`), each given field is put to its rule (`plugin.rules`).
What is not known at a station is denied there. Where a rule needs a fact that nobody has asked for yet, the
decision says which, and denies as long as the fact is missing.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import cast
from urllib.parse import unquote_plus

from plugin.bodies import BODIES, HOST_CONFIG
from plugin.context import (
    Absent,
    Container,
    ContainerQuery,
    Context,
    JsonObject,
    MissingFactsError,
    Query,
    unanswered,
)
from plugin.decode import decode
from plugin.denial import Denial, DenialError, unreadable
from plugin.routes import Operation, Verdict, route
from plugin.rules import HOST_CONFIG as CREATE_RULES
from plugin.rules import STORED, UPDATE, applying, binds, builds, networks, privilege, volumes
from plugin.rules.catalogue import Tier, tier
from plugin.rules.devices import DeviceRequest, device_names
from plugin.rules.paths import clean
from plugin.rules.relax import is_relaxed

__all__ = ["Context", "Decision", "Request", "decide"]

# Nobody mounts more; each is a question to the daemon or the kernel.
MAX_QUERIES = 256
_MAX_DENIALS = 20


@dataclass(frozen=True)
class Request:
    """One call of a repository's Docker API, as dockerd shows it; `body` is None where it shows none.

    `headers` are those that dockerd shows, the last of each name: not what its own handlers obey. `user`
    is the client certificate's name, where there is one.
    """

    method: str
    target: str
    body: bytes | None
    headers: Mapping[str, str] = field(default_factory=dict)
    user: str = ""


@dataclass(frozen=True)
class Decision:
    """Allow, or deny with the reason.

    `devices` are the CDI names that the request uses. `others` are further reasons, for `renet gpu explain`.
    With answers to the `missing` queries there may be more of them; unless it is `final`, the decision itself
    may turn out otherwise.
    """

    allow: bool
    denial: Denial | None = None
    devices: tuple[str, ...] = ()
    others: tuple[Denial, ...] = ()
    missing: tuple[Query, ...] = ()
    final: bool = True


@dataclass
class _Findings:
    """What the rules said so far."""

    context: Context
    denials: list[Denial] = field(default_factory=list)
    missing: dict[Query, None] = field(default_factory=dict)
    devices: tuple[str, ...] = ()

    def add(self, denials: Iterable[Denial]) -> None:
        try:
            found = islice(
                (denial for denial in denials if not is_relaxed(denial, self.context)), _MAX_DENIALS
            )
            self.denials.extend(found)
        except MissingFactsError as error:
            self.missing.update(dict.fromkeys(error.queries))

    def decision(self) -> Decision:
        if len(self.missing) > MAX_QUERIES:
            return Decision(False, unreadable(f"it names more than {MAX_QUERIES} paths and volumes").denial)
        missing = tuple(self.missing)
        if self.denials:
            ranked = sorted(self.denials, key=lambda denial: tier(denial.rule) is Tier.HOST)
            return Decision(False, ranked[0], self.devices, tuple(ranked[1:]), missing)
        if missing:
            reason = unanswered("what this request refers to")
            return Decision(False, reason, self.devices, missing=missing, final=False)
        return Decision(True, devices=self.devices)


def decide(request: Request, context: Context) -> Decision:
    """Judge `request`. Never raises for anything that a client can send."""
    try:
        operation = route(request.method, request.target)
        if operation.endpoint.verdict is Verdict.ALLOW:
            return Decision(True)
        findings = _Findings(context)
        _JUDGES[operation.endpoint.verdict](operation, request, findings)
    except DenialError as error:
        return Decision(False, error.denial)
    return findings.decision()


def _judge_body(operation: Operation, request: Request, findings: _Findings) -> None:
    body = _body(operation, request)
    context = findings.context
    match operation.route:
        case "POST /containers/create":
            fields = cast("JsonObject", body.get("HostConfig") or {})
            requests = cast("list[DeviceRequest]", fields.get("DeviceRequests") or [])
            findings.devices = device_names(requests)
            for denials in applying(CREATE_RULES, fields, context):
                findings.add(denials)
        case "POST /containers/{name}/exec":
            if body.get("Privileged"):
                findings.add(privilege.privileged(True, context, "Privileged"))
        case "POST /containers/{name}/update":
            for denials in applying(UPDATE, body, context):
                findings.add(denials)
        case "POST /volumes/create":
            driver = cast("str | None", body.get("Driver"))
            options = cast("dict[str, str | None] | None", body.get("DriverOpts"))
            findings.add(volumes.volume(driver, options, ("Driver", "DriverOpts"), context))
        case "POST /networks/create":
            findings.add(networks.network(body, context))
        case _:
            pass  # networks/{name}/connect: nothing in its known fields does harm


def _body(operation: Operation, request: Request) -> JsonObject:
    if request.body:
        return decode(request.body, BODIES[operation.route])
    # dockerd shows a body only with the media type application/json, and not every body of that type. A
    # volume may be made without one; where the daemon hides one after all, the volume is judged at its use.
    if operation.route == "POST /volumes/create" and request.headers.get("Content-Length") == "0":
        return {}
    raise unreadable("its body is missing or hidden from the gate")


def _judge_stored(operation: Operation, request: Request, findings: _Findings) -> None:
    starts = operation.route in _STARTS
    if starts:
        _check_start(operation, request)
    query = ContainerQuery(operation.name)
    context = findings.context
    if query not in context.facts:
        findings.missing[query] = None
        return
    answer = context.facts[query]
    if isinstance(answer, Absent):
        return  # dockerd says so itself
    if not isinstance(answer, Container):
        raise DenialError(unanswered("how this container was made"))
    if answer.others:
        raise DenialError(
            Denial(
                "unreadable-request",
                f"{operation.name[:100]} is the name of one container and the beginning of another's id",
                "Use the full id of the container",
            )
        )
    fields = _stored_fields(answer.host_config)
    if starts:
        findings.devices = device_names(cast("list[DeviceRequest]", fields.get("DeviceRequests") or []))
    counts = _Counts(starts, frozenset(clean(path) for path, _ in answer.binds))
    for denials in applying(STORED, fields, context):
        findings.add(counts.of(denials))
    names = [(name, f"Mounts {name}") for name in answer.volumes]
    findings.add(counts.of(volumes.named_volumes(names, context)))
    paths = [(path, read_only, f"Mounts {path}") for path, read_only in answer.binds]
    findings.add(counts.of(binds.host_paths(paths, context)))


_STARTS = frozenset({"POST /containers/{name}/start", "POST /containers/{name}/restart"})
_FORGIVEN_BUT_AT_START = frozenset({"device-not-granted", "grants-unreadable"})


@dataclass(frozen=True)
class _Counts:
    """Which denials count against a container that exists: those that reach hardware, and links turned since.

    Not only starts are judged. A rename is, so that no container which may not start can take the name of
    one that may between the gate's look at it and dockerd's. An archive is (``docker cp``), since the
    daemon mounts the container's binds and volumes for it, whether it runs or not. Neither needs the
    grants of its devices: Compose renames what it replaces.
    """

    starts: bool
    named: frozenset[str]

    def of(self, denials: Iterable[Denial]) -> Iterator[Denial]:
        for denial in denials:
            if tier(denial.rule) is Tier.HOST:
                # A path of the system that was named openly was allowed once. One that is found at the
                # end of a link was not: the link has been turned there.
                if denial.rule != "bind-system" or denial.subject in self.named:
                    continue
            elif denial.rule in _FORGIVEN_BUT_AT_START and not self.starts:
                continue
            yield replace(denial, fix=f"{denial.fix}; this container was made with it, so make it anew")


def _check_start(operation: Operation, request: Request) -> None:
    if operation.version is not None and operation.version < (1, 24):
        # A body of these versions was the container's HostConfig.
        raise unreadable("API versions below 1.24 configure a container when it starts")
    if request.body and operation.route in BODIES:
        decode(request.body, BODIES[operation.route])
    if "checkpoint" in unquote_plus(operation.query):
        raise DenialError(
            Denial(
                "checkpoint",
                "starting from a checkpoint is refused on this machine",
                "Start the container without a checkpoint",
            )
        )


def _stored_fields(host_config: JsonObject) -> JsonObject:
    """The fields that the gate knows, in the types that its rules expect."""
    fields = {}
    for name, known in HOST_CONFIG.items():
        value = host_config.get(name)
        if value is None:
            continue
        if type(value) is not known.kind.python:
            raise DenialError(unanswered(f"what {name} of this container is"))
        known.kind.check(value)
        fields[name] = value
    return fields


def _judge_build(operation: Operation, _request: Request, findings: _Findings) -> None:
    query = operation.query if operation.route == "POST /build" else ""
    findings.add(builds.build(query, findings.context))


_REFUSED = {
    Verdict.PLUGIN: (
        "managed-plugin",
        "managed plugins are refused on this machine",
        "Ask an operator of it",
    ),
    Verdict.SWARM: ("swarm", "swarm is refused on this machine", "Use docker compose"),
    Verdict.CHECKPOINT: (
        "checkpoint",
        "checkpoints are refused on this machine",
        "Commit or export the container instead",
    ),
    Verdict.DENY: (
        "unknown-endpoint",
        "the daemon's debugging endpoints are refused on this machine",
        "Ask an operator of it",
    ),
}


def _refuse(operation: Operation, _request: Request, _findings: _Findings) -> None:
    raise DenialError(Denial(*_REFUSED[operation.endpoint.verdict]))


_JUDGES = {
    Verdict.INSPECT: _judge_body,
    Verdict.STORED: _judge_stored,
    Verdict.BUILD: _judge_build,
    Verdict.PLUGIN: _refuse,
    Verdict.SWARM: _refuse,
    Verdict.CHECKPOINT: _refuse,
    Verdict.DENY: _refuse,
}
