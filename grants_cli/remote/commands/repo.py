"""``rdc repo …``: repositories, each with a Docker daemon of its own."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from grants_cli.remote import answers, complete, locate, machines, views
from grants_cli.remote.answers import Repository
from grants_cli.remote.commands import many, one
from grants_cli.remote.errors import ContradictionError
from grants_cli.remote.machines import Machine
from grants_cli.remote.renet import Call, ask
from grants_cli.remote.target import Target
from spec.console import emit, output_option, wants_json

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
_new_argument = click.argument("ref", metavar="REF", shell_complete=complete.new_repository)


def _new_repository_options(function: FunctionT) -> FunctionT:
    """Add what an operator may choose about a new repository; they come as keyword arguments."""
    for option in (
        click.option("--dry-run", is_flag=True, help="Say what would be made, and make nothing."),
        click.option("--no-start", is_flag=True, help="Leave its daemon stopped."),
        click.option("--subnet", metavar="CIDR", help="Its addresses. [default: the first /18 that is free]"),
        click.option(
            "--network",
            type=click.Choice(["bridge", "host"]),
            help="A bridge of its own with NAT (default), or none: containers then use --network host.",
        ),
        click.option(
            "--group", metavar="GROUP", help="May use its Docker socket on the machine, beside root."
        ),
    ):
        function = option(function)
    return function


def _options(**given: str | bool | None) -> tuple[str, ...]:
    """The options that were given, as `renet` takes them."""
    names = {name: f"--{name.replace('_', '-')}" for name in given}
    flags = (names[name] for name, value in given.items() if value is True)
    return (*flags, *(f"{names[name]}={value}" for name, value in given.items() if isinstance(value, str)))


@click.command("create")
@_new_argument
@_new_repository_options
@many.timeout_option(300)
@output_option
def create(*, ref: str, timeout: float | None, **given: Any) -> None:
    """Make the repository REF, with a Docker daemon behind the gate. It starts without grants.

    \b
    rdc repo create gpu-a@lab
    rdc repo create gpu-a:test@lab --group gpu-a --network host
    """
    _make(Target.parse(ref), ("repo", "create"), given, timeout)


@click.command("adopt")
@_new_argument
@click.option("--socket", required=True, help="The socket of its Docker API, on the machine.")
@click.option("--data-root", help="Its data root, on the machine.")
@click.option("--daemon-json", help="Its daemon.json, on the machine.")
@click.option("--guid", help="Its identity, where it has one; else a new one.")
@click.option("--fix", is_flag=True, help="Put its daemon.json right, and keep the old one beside it.")
@many.timeout_option(60)
@output_option
def adopt(*, ref: str, timeout: float | None, **given: Any) -> None:
    """Register the Docker daemon of the repository REF, which exists already, and say what must change in it.

    \b
    rdc repo adopt gpu-a@lab --socket /run/gpu-a/docker.sock
    """
    _make(Target.parse(ref), ("repo", "adopt"), given, timeout)


def _make(target: Target, command: tuple[str, str], given: dict[str, Any], timeout: float | None) -> None:
    machine = locate.machine_for_new(target, machines.read())
    changes = not given.get("dry_run")
    find_out = f"rdc repo list {machine}"
    call = Call(command, _options(**given), (str(target.ref),), changes=changes, find_out=find_out)
    data = ask(machine, call, timeout, one.pass_on)
    emit(data, lambda: views.made(machine.name, command[1], str(target.ref), answers.record(data)))


@click.command("fork")
@click.argument("ref", metavar="PARENT", shell_complete=complete.repository)
@click.argument("child", metavar="REF")
@_new_repository_options
@many.timeout_option(600)
@output_option
def fork(*, ref: str, child: str, timeout: float | None, **given: Any) -> None:
    """Copy the repository PARENT, on its machine, to a new one, which starts without grants.

    \b
    rdc repo fork gpu-a@lab gpu-a:test
    """
    parent, new = Target.parse(ref), Target.parse(child)
    if parent.machine and new.machine and parent.machine != new.machine:
        raise ContradictionError(
            f"{parent} is on {parent.machine} and {new} is to be on {new.machine}",
            "a fork stays on its parent's machine",
        )
    call = Call(
        ("repo", "fork"),
        _options(**given),
        (str(parent.ref), str(new.ref)),
        changes=not given.get("dry_run"),
        find_out=f"rdc repo list {parent.machine or new.machine}".strip(),
    )
    machine, data = one.ask_about(parent, new.machine, call, timeout)
    emit(data, lambda: views.made(machine.name, "fork", str(new.ref), answers.record(data)))


@click.command("delete")
@one.ref_argument
@click.option("--yes", is_flag=True, help="Do not ask: its containers, images and volumes are gone for good.")
@click.option("--keep-data", is_flag=True, help="Leave its images, containers and volumes on the disk.")
@click.option("--dry-run", is_flag=True, help="Say what would go, and remove nothing.")
@many.timeout_option(300)
@output_option
def delete(*, ref: str, on: str, yes: bool, timeout: float | None, **given: Any) -> None:
    """Delete the repository REF with its daemon, its data and its grants.

    \b
    rdc repo delete gpu-a:test@lab
    """
    target = Target.parse(ref)
    if not (yes or wants_json() or given["dry_run"]):
        click.confirm(f"delete {target} and everything in it?", abort=True, err=True)
    _change(target, on, "delete", _options(**given), timeout)


@click.command("start")
@one.ref_argument
@many.timeout_option(120)
@output_option
def start(ref: str, on: str, timeout: float | None) -> None:
    """Start the daemon of the repository REF."""
    _change(Target.parse(ref), on, "start", (), timeout)


@click.command("stop")
@one.ref_argument
@many.timeout_option(120)
@output_option
def stop(ref: str, on: str, timeout: float | None) -> None:
    """Stop the daemon of the repository REF, and with it its containers."""
    _change(Target.parse(ref), on, "stop", (), timeout)


def _change(target: Target, on: str, verb: str, options: tuple[str, ...], timeout: float | None) -> None:
    call = Call(
        ("repo", verb),
        options,
        (str(target.ref),),
        changes="--dry-run" not in options,
        find_out=f"rdc repo list {target.machine or on}".strip(),
    )
    machine, data = one.ask_about(target, on, call, timeout)
    done = {"delete": "deleted", "start": "started", "stop": "stopped"}[verb]
    would = "would be " if "--dry-run" in options else ""
    emit(data, lambda: click.echo(f"{target.ref}@{machine}: {would}{done}"))


@click.command("list")
@many.machines_argument
@many.timeout_option(30)
@output_option
def list_command(names: tuple[str, ...], everywhere: bool, timeout: float | None) -> None:
    """Show the repositories of machines; of all machines unless some are named."""
    targets = many.chosen(names, everywhere or not names)

    def work(machine: Machine) -> list[answers.Record]:
        return [repository.record for repository in locate.repositories(machine, timeout)]

    def show(machine: Machine, found: list[answers.Record]) -> None:
        if found:
            views.repositories([(machine.name, Repository(answers.text(r, "ref"), r)) for r in found])
        else:
            click.echo(f"{machine} has no repositories")

    many.on_each(targets, work, show)
