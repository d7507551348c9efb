"""``docs/rules.md``, made from the tables that the gate judges by: ``python -m plugin.rules.page
>docs/rules.md``.
"""

import sys
from collections.abc import Iterator, Mapping

from plugin.bodies import (
    CONNECT_FIELDS,
    CREATE_FIELDS,
    EXEC_FIELDS,
    FLOOR_VERSION,
    HOST_CONFIG,
    NETWORK_FIELDS,
    NEWEST_VERSION,
    UPDATE_FIELDS,
    VOLUME_FIELDS,
)
from plugin.fields import Field
from plugin.routes import ENDPOINTS, Verdict
from plugin.rules import paths, privilege
from plugin.rules.catalogue import RULES, Tier
from plugin.rules.confinement import LOG_DRIVERS
from plugin.rules.volumes import FILE_SYSTEMS

_TIERS = {
    Tier.HARDWARE: "These reach a device, or root on the host and so a device. Nothing switches them off.",
    Tier.HOST: "These weaken the host but reach no device. An operator may allow them for one repository by"
    " name in gate.yaml.",
    Tier.PROTOCOL: "What the gate cannot read with certainty. Nothing switches these off.",
}
_BODIES: Mapping[str, Mapping[str, Field]] = {
    "HostConfig of `POST /containers/create`": HOST_CONFIG,
    "The rest of `POST /containers/create`": CREATE_FIELDS,
    "`POST /containers/{name}/exec`": EXEC_FIELDS,
    "`POST /containers/{name}/update`": UPDATE_FIELDS,
    "`POST /volumes/create`": VOLUME_FIELDS,
    "`POST /networks/create`": NETWORK_FIELDS,
    "`POST /networks/{name}/connect`": CONNECT_FIELDS,
}


def page() -> str:
    """The page, in Markdown."""
    return "\n".join([*_head(), *_rules(), *_endpoints(), *_fields(), *_lists()]) + "\n"


def _head() -> Iterator[str]:
    yield "# The gate's rules"
    yield ""
    yield "Made by `python -m plugin.rules.page` from the tables that the gate judges by; do not edit."
    yield ""
    yield "Every denial names one of these rules, in the message's log line, in `renet gpu explain` and here."
    yield "Whatever is in none of the tables below is refused: an endpoint, a field, an option."
    yield ""


def _rules() -> Iterator[str]:
    for level, about in _TIERS.items():
        yield f"## {level.capitalize()} rules"
        yield ""
        yield about
        yield ""
        for rule in RULES:
            if rule.tier is level:
                yield f"### {rule.id}"
                yield ""
                yield f"Denies: {rule.denies}"
                yield ""
                yield f"Why: {rule.why}"
                yield ""
                yield f"Instead: {rule.instead}"
                yield ""
                if rule.relaxed_by:
                    yield f"In gate.yaml: `{rule.id}:` {rule.relaxed_by}"
                    yield ""


def _endpoints() -> Iterator[str]:
    yield "## Endpoints"
    yield ""
    yield "Each may follow a version, `/v1.47`, and is known by this spelling alone."
    yield ""
    for verdict in Verdict:
        refused = verdict in {Verdict.PLUGIN, Verdict.SWARM, Verdict.CHECKPOINT, Verdict.DENY}
        title = f"Refused by {verdict.value}" if refused else verdict.value.capitalize()
        yield f"### {title}"
        yield ""
        yield from (f"- `{endpoint.route}`" for endpoint in ENDPOINTS if endpoint.verdict is verdict)
        yield ""


def _fields() -> Iterator[str]:
    yield "## Fields"
    yield ""
    yield f"Of the Docker API {FLOOR_VERSION} to {NEWEST_VERSION}. Fields without a rule pass with any value."
    yield ""
    for title, fields in _BODIES.items():
        yield f"### {title}"
        yield ""
        yield "| field | type | API | rule |"
        yield "|---|---|---|---|"
        for name, field in sorted(fields.items()):
            versions = f"from {field.since}" if field.since else f"to {field.until}" if field.until else ""
            yield f"| {name} | {field.kind.name} | {versions} | {field.rule} |"
        yield ""


def _lists() -> Iterator[str]:
    yield "## What is allowed"
    yield ""
    lists = {
        "Capabilities": (*privilege.DEFAULT_CAPABILITIES, *privilege.HARMLESS_CAPABILITIES),
        "Capabilities that gate.yaml may allow": privilege.HOST_CAPABILITIES,
        "Runtimes": privilege.RUNTIMES,
        "Log drivers": LOG_DRIVERS,
        "File systems of volumes": FILE_SYSTEMS,
        "Directories of the host, with all that is below them": paths.ORDINARY,
        "Files of the host's system, read-only": paths.READ_ONLY,
    }
    for title, entries in lists.items():
        yield f"- {title}: {', '.join(f'`{entry}`' for entry in sorted(entries))}"
    yield ""
    yield "Never, whatever gate.yaml says:"
    yield ""
    yield f"- hardware: {', '.join(f'`{path}`' for path in paths.HARDWARE)}"
    yield f"- control: {', '.join(f'`{path}`' for path in paths.CONTROL)}, and what the machine adds to them"


if __name__ == "__main__":
    sys.stdout.write(page())
