"""``renet cdi …``: the devices that the machine's CDI specs define, and what is wrong with the specs."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from spec.console import emit, layout, output_option, print_table, say, wants_json
from spec.errors import UntrustedError
from spec.layout import Layout

if TYPE_CHECKING:
    from spec.generate import Generation, Outcome
    from spec.model import ContainerEdits
    from spec.problems import Problem
    from spec.registry import Injection, Registry

_DONE = {"written": "written", "unchanged": "unchanged", "removed": "removed", "absent": "none needed"}
_WOULD = {"written": "would write", "removed": "would remove"}


def _directories(ctx: click.Context, _param: click.Parameter, value: Sequence[Path]) -> tuple[Path, ...]:
    if value:
        return tuple(value)
    # While completing, click parses the options of ``renet`` and does not run it.
    found = ctx.find_object(Layout) or Layout.at(ctx.find_root().params.get("root") or "/")
    return (found.cdi_dir,)


_spec_dir_option = click.option(
    "--spec-dir",
    "directories",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    callback=_directories,
    help="Read DIR instead of /etc/cdi; may be repeated, and the later one wins.",
)


def _complete_device(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from spec.registry import read

    directories = _directories(ctx, _param, ctx.params.get("directories", ()))
    return [CompletionItem(name) for name in read(directories).names() if name.startswith(incomplete)]


@click.command("list")
@_spec_dir_option
@output_option
def list_command(directories: tuple[Path, ...]) -> None:
    """List the devices that the CDI specs define, from which file, and with which nodes.

    Files that an engine would not take, and devices that clash, are told on stderr.

    \b
    renet cdi list
    renet cdi list --spec-dir /etc/cdi --spec-dir /var/run/cdi -o json
    """
    from spec.registry import read

    registry = read(directories)
    data = {
        "devices": [_summary(registry.devices[name]) for name in registry.names()],
        "errors": [_problem(problem) for problem in registry.errors],
    }
    emit(data, lambda: _show_devices(registry, directories))


def _show_devices(registry: "Registry", directories: tuple[Path, ...]) -> None:
    rows = []
    for name in registry.names():
        injection = registry.devices[name]
        nodes = [node.path for node in injection.device_edits.device_nodes]
        rows.append((name, str(injection.file.path), " ".join(nodes) or "-"))
    if rows:
        print_table(("NAME", "SPEC", "DEVICE NODES"), rows)
    else:
        say(f"no spec in {', '.join(map(str, directories))} defines a device")
    for problem in registry.errors:
        say(f"warning: {problem}")


@click.command("show")
@click.argument("name", shell_complete=_complete_device)
@_spec_dir_option
@output_option
def show(name: str, directories: tuple[Path, ...]) -> None:
    """Show what a container gets by naming the device NAME: its own edits, and those of its spec.

    \b
    renet cdi show nvidia.com/gpu=0
    """
    from spec.names import QualifiedName
    from spec.registry import read
    from spec.writer import edits_document

    injection = read(directories).resolve(QualifiedName.parse(name))
    data = {
        "name": name,
        "spec": str(injection.file.path),
        "cdiVersion": injection.file.spec.version,
        "annotations": dict(injection.device.annotations),
        "specAnnotations": dict(injection.file.spec.annotations),
        "deviceEdits": edits_document(injection.device_edits),
        "commonEdits": edits_document(injection.common_edits),
    }
    emit(data, lambda: _show_injection(injection))


def _show_injection(injection: "Injection") -> None:
    spec = injection.file.spec
    click.echo(f"{injection.name}\n  defined in {injection.file.path} (CDI {spec.version})")
    for key, value in sorted({**spec.annotations, **injection.device.annotations}.items()):
        click.echo(f"  {key}: {_plain(value)}")
    for title, edits in (
        ("of its own", injection.device_edits),
        ("with every device of its spec", injection.common_edits),
    ):
        lines = list(_edit_lines(edits))
        if lines:
            click.echo(f"\n  {title}:")
            click.echo("\n".join(f"    {kind:<12} {_plain(text)}" for kind, text in lines))


def _edit_lines(edits: "ContainerEdits") -> list[tuple[str, str]]:
    """What `edits` do, one thing a line."""
    lines = []
    for node in edits.device_nodes:
        source = f" (on the machine {node.source})" if node.source != node.path else ""
        owner = f" group {node.gid}" if node.gid is not None else ""
        lines.append(("device node", f"{node.path}{source} {node.permissions or 'rwm'}{owner}"))
    lines += [("mount", f"{m.host_path} at {m.container_path} {','.join(m.options)}") for m in edits.mounts]
    lines += [("environment", variable) for variable in edits.env]
    lines += [("hook", f"{hook.name}: {' '.join(hook.args or (hook.path,))}") for hook in edits.hooks]
    lines += [("group", str(gid)) for gid in edits.additional_gids]
    lines += [("interface", f"{net.host_interface_name} as {net.name}") for net in edits.net_devices]
    if edits.intel_rdt:
        lines.append(("Intel RDT", edits.intel_rdt.clos_id or "a class of its own"))
    return lines


def _plain(text: str) -> str:
    """`text` without what a terminal would obey."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


@click.command("validate")
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(allow_dash=True, path_type=Path), metavar="FILE…"
)
@output_option
@click.pass_context
def validate(ctx: click.Context, files: tuple[Path, ...]) -> None:
    """Check spec files as an engine does, and say every problem: its line, its place, what the rule is.

    FILE may be - for standard input. Exits with 12 when one of the files is not valid.

    \b
    renet cdi validate /etc/cdi/*.yaml
    nvidia-ctk cdi generate | renet cdi validate -
    """
    results = [_checked(path) for path in files]
    bad = sum(not result["valid"] for result in results)
    error = UntrustedError(f"{bad} of {len(results)} files are not valid specs" if bad else "")
    if wants_json():
        answer: dict[str, object] = {"ok": not bad, "data": results}
        if bad:
            answer["error"] = {"code": "invalid-spec", "message": error.message, "hint": error.hint}
        click.echo(json.dumps(answer, ensure_ascii=False))
    else:
        for result in results:
            _show_result(result)
    if bad:
        ctx.exit(error.exit_status)


def _checked(path: Path) -> dict[str, object]:
    from spec.reader import InvalidSpecError, parse_spec, read_spec

    try:
        spec = parse_spec(sys.stdin.buffer.read()) if str(path) == "-" else read_spec(path)
    except InvalidSpecError as error:
        problems = [problem if problem.file else problem.at(path) for problem in error.problems]
        return {"file": str(path), "valid": False, "problems": [_problem(problem) for problem in problems]}
    return {
        "file": str(path),
        "valid": True,
        "cdiVersion": spec.version,
        "kind": spec.kind,
        "devices": list(spec.qualified_names()),
    }


def _show_result(result: dict[str, object]) -> None:
    if result["valid"]:
        devices = result["devices"]
        count = len(devices) if isinstance(devices, list) else 0
        click.echo(f"{result['file']}: valid, {result['kind']} with {count} device{'s' * (count != 1)}")
        return
    problems = result["problems"]
    for problem in problems if isinstance(problems, list) else []:
        click.echo(problem["text"])


@click.command("generate")
@click.option("--dry-run", is_flag=True, help="Say what would be written and write nothing.")
@click.option(
    "--spec-dir", type=click.Path(path_type=Path), metavar="DIR", help="Write to DIR instead of /etc/cdi."
)
@output_option
def generate(dry_run: bool, spec_dir: Path | None) -> None:
    """Write the specs rediacc.io/dri and rediacc.io/amd from what the kernel shows of the machine's GPUs.

    Writes nothing when nothing has changed, removes a spec whose last device is gone, and says which
    names have come to mean another card.

    \b
    renet cdi generate --dry-run
    renet cdi generate
    """
    from spec.generate import generate as bring

    generation = bring(layout(), dry_run, spec_dir)
    data = {
        "dryRun": dry_run,
        "specs": [_outcome(outcome) for outcome in generation.outcomes],
        "warnings": list(generation.topology.warnings),
    }
    emit(data, lambda: _show_generation(generation, dry_run))
    for warning in generation.topology.warnings:
        say(f"warning: {warning}")
    for change in generation.renumbered:
        say(f"warning: {change}")
        say(f"hint: renet gpu who {change.name} shows who holds it; grant and revoke by what it is now")


def _show_generation(generation: "Generation", dry_run: bool) -> None:
    words = {**_DONE, **_WOULD} if dry_run else _DONE
    rows = [
        (outcome.kind, words[outcome.action], str(outcome.path), " ".join(_short(outcome)) or "-")
        for outcome in generation.outcomes
    ]
    print_table(("KIND", "", "SPEC", "DEVICES"), rows)


def _short(outcome: "Outcome") -> list[str]:
    return [name.partition("=")[2] for name in outcome.names]


@click.command("schema")
def schema() -> None:
    """Print the JSON schema of CDI specs, for editors and other tools.

    It is stricter than the published one; our own specs name it.

    \b
    renet cdi schema > cdi-spec.json
    """
    from spec.schema import schema_text

    click.echo(schema_text(), nl=False)


def _summary(injection: "Injection") -> dict[str, object]:
    return {
        "name": injection.name,
        "spec": str(injection.file.path),
        "nodes": [node.path for node in injection.device_edits.device_nodes],
        "annotations": dict(injection.device.annotations),
    }


def _problem(problem: "Problem") -> dict[str, object]:
    return {
        "file": str(problem.file),
        "line": problem.line,
        "where": problem.place,
        "code": problem.code,
        "found": problem.found,
        "rule": problem.rule,
        "text": str(problem),
    }


def _outcome(outcome: "Outcome") -> dict[str, object]:
    return {
        "kind": outcome.kind,
        "path": str(outcome.path),
        "action": outcome.action,
        "devices": list(outcome.names),
        "renumbered": [
            {"name": change.name, "before": change.before, "now": change.now} for change in outcome.renumbered
        ],
    }
