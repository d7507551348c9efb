"""``rdc repo gpu …``: what one repository may use."""

from dataclasses import asdict
from typing import Any

import click

from grants_cli.remote import answers, complete, views
from grants_cli.remote.commands import many, one
from grants_cli.remote.renet import Call, ask, words
from grants_cli.remote.target import Target
from spec.console import emit, output_option
from spec.errors import UsageError

_EXCLUSIVE = {True: ["--exclusive"], False: ["--shared"], None: []}
_device_option = click.option(
    "--device",
    "devices",
    multiple=True,
    metavar="NAME",
    help="A CDI name; repeatable.",
    shell_complete=complete.device,
)


@click.command("grant")
@one.ref_argument
@_device_option
@click.option(
    "--exclusive/--shared",
    default=None,
    help="Keep all others off the same GPU, or not. [default: as it is; shared when new]",
)
@click.option("--expires", metavar="TIME", help="When the grant ends: 8h, 7d, 2026-12-31T18:00Z, or never.")
@click.option("--dry-run", is_flag=True, help="Check everything; change nothing.")
@many.timeout_option(60)
@output_option
def grant(
    *,
    ref: str,
    on: str,
    devices: tuple[str, ...],
    exclusive: bool | None,
    expires: str | None,
    dry_run: bool,
    timeout: float | None,
) -> None:
    """Let the repository REF use devices, from the next Docker request on. All of them or none.

    \b
    rdc repo gpu grant gpu-a --device nvidia.com/gpu=0
    rdc repo gpu grant gpu-a:test@lab --device rediacc.io/dri=0 --exclusive --expires 8h
    """
    if not devices:
        raise UsageError("which device?", "--device NAME; rdc gpu list shows the names")
    target = Target.parse(ref)
    options = [*words("--device", devices), *_EXCLUSIVE[exclusive]]
    options += [f"--expires={expires}"] if expires else []
    _change(target, on, ("gpu", "grant"), options, dry_run=dry_run, timeout=timeout)


@click.command("revoke")
@one.ref_argument
@_device_option
@click.option("--all", "everything", is_flag=True, help="Every device that it may use.")
@click.option("--stop", is_flag=True, help="Stop the containers that still hold a device.")
@click.option("--dry-run", is_flag=True, help="Check everything; change nothing.")
@many.timeout_option(120)
@output_option
def revoke(
    *,
    ref: str,
    on: str,
    devices: tuple[str, ...],
    everything: bool,
    stop: bool,
    dry_run: bool,
    timeout: float | None,
) -> None:
    """Take devices from the repository REF, from the next Docker request on.

    Containers that run keep what they hold: the answer names them, and --stop stops them.
    """
    if bool(devices) == everything:
        raise UsageError("which device?", "--device NAME, or --all")
    target = Target.parse(ref)
    options = [*words("--device", devices), *(["--all"] if everything else []), *(["--stop"] if stop else [])]
    _change(target, on, ("gpu", "revoke"), options, dry_run=dry_run, timeout=timeout)


def _change(
    target: Target,
    on: str,
    command: tuple[str, str],
    options: list[str],
    *,
    dry_run: bool,
    timeout: float | None,
) -> None:
    on = on or target.machine
    call = Call(
        command,
        (*options, *(["--dry-run"] if dry_run else [])),
        (str(target.ref),),
        changes=not dry_run,
        find_out=f"rdc repo gpu list {target.ref}{f'@{on}' if on else ''}",
    )
    machine, data = one.ask_about(target, on, call, timeout)
    emit(data, lambda: views.change(machine.name, answers.record(data)))


@click.command("list")
@one.ref_argument
@many.timeout_option(30)
@output_option
def list_command(ref: str, on: str, timeout: float | None) -> None:
    """Show the devices that the repository REF may use at this moment."""
    target = Target.parse(ref)
    machine, data = one.ask_about(target, on, Call(("gpu", "grants"), operands=(str(target.ref),)), timeout)
    grants = answers.live_grants(data)
    emit([asdict(each) for each in grants], lambda: views.grants_of(f"{target.ref}@{machine}", grants))


@click.command("who")
@one.ref_argument
@_device_option
@many.timeout_option(60)
@output_option
def who(ref: str, on: str, devices: tuple[str, ...], timeout: float | None) -> None:
    """Show with whom the repository REF shares its devices, and which running containers hold them."""
    target = Target.parse(ref)
    machine, data = one.ask_about(target, on, Call(("gpu", "grants"), operands=(str(target.ref),)), timeout)
    wanted = devices or tuple(each.device for each in answers.live_grants(data))
    calls = {name: Call(("gpu", "who"), operands=(name,)) for name in wanted}
    found = {name: answers.record(ask(machine, call, timeout)) for name, call in calls.items()}
    nothing = f"{target.ref}@{machine} has no grants"
    emit(found, lambda: views.who(found) if found else click.echo(nothing))


@click.command("explain")
@one.ref_argument
@click.argument("file", type=click.File("rb"), default="-")
@many.timeout_option(30)
@output_option
def explain(ref: str, on: str, file: Any, timeout: float | None) -> None:
    """Say what the gate would answer to a container of REF: FILE is a create body or a compose file.

    \b
    rdc repo gpu explain gpu-a compose.yaml
    docker inspect … | rdc repo gpu explain gpu-a -
    """
    target = Target.parse(ref)
    call = Call(("gpu", "explain"), operands=(str(target.ref), "-"), stdin=file.read())
    _, data = one.ask_about(target, on, call, timeout)
    emit(data, lambda: click.echo(answers.record(data).get("text", "")))
