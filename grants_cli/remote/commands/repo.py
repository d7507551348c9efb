"""``rdc repo …``: repositories, each with a Docker daemon of its own."""

import click

from grants_cli.remote import answers, complete, locate, machines, views
from grants_cli.remote.answers import Repository
from grants_cli.remote.commands import many, one
from grants_cli.remote.errors import ContradictionError
from grants_cli.remote.machines import Machine
from grants_cli.remote.renet import Call, ask
from grants_cli.remote.target import Target
from spec.console import emit, output_option, wants_json

_new_argument = click.argument("ref", metavar="REF", shell_complete=complete.new_repository)


@click.command("create")
@_new_argument
@many.timeout_option(300)
@output_option
def create(ref: str, timeout: float | None) -> None:
    """Make the repository REF, with a Docker daemon behind the gate. It starts without grants.

    \b
    rdc repo create gpu-a@lab
    """
    _make(Target.parse(ref), ("repo", "create"), (), timeout, "created")


@click.command("adopt")
@_new_argument
@click.option("--socket", required=True, help="The socket of its Docker API, on the machine.")
@click.option("--data-root", help="Its data root, on the machine.")
@click.option("--daemon-json", help="Its daemon.json, on the machine.")
@click.option("--guid", help="Its identity, where it has one; else a new one.")
@many.timeout_option(60)
@output_option
def adopt(
    *,
    ref: str,
    socket: str,
    data_root: str | None,
    daemon_json: str | None,
    guid: str | None,
    timeout: float | None,
) -> None:
    """Register the Docker daemon of the repository REF, which exists already.

    \b
    rdc repo adopt gpu-a@lab --socket /run/gpu-a/docker.sock
    """
    given = {"--socket": socket, "--data-root": data_root, "--daemon-json": daemon_json, "--guid": guid}
    options = tuple(f"{name}={value}" for name, value in given.items() if value)
    _make(Target.parse(ref), ("repo", "adopt"), options, timeout, "adopted")


def _make(
    target: Target, command: tuple[str, str], options: tuple[str, ...], timeout: float | None, done: str
) -> None:
    machine = locate.machine_for_new(target, machines.read())
    call = Call(command, options, (str(target.ref),), changes=True, find_out=f"rdc repo list {machine}")
    data = ask(machine, call, timeout, one.pass_on)
    emit(data, lambda: click.echo(f"{done} {target.ref}@{machine}"))


@click.command("fork")
@click.argument("ref", metavar="PARENT", shell_complete=complete.repository)
@click.argument("child", metavar="REF")
@many.timeout_option(600)
@output_option
def fork(ref: str, child: str, timeout: float | None) -> None:
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
        operands=(str(parent.ref), str(new.ref)),
        changes=True,
        find_out=f"rdc repo list {parent.machine}",
    )
    machine, data = one.ask_about(parent, new.machine, call, timeout)
    emit(data, lambda: click.echo(f"forked {parent.ref} to {new.ref}@{machine}"))


@click.command("delete")
@one.ref_argument
@click.option("--yes", is_flag=True, help="Do not ask: its containers, images and volumes are gone for good.")
@many.timeout_option(300)
@output_option
def delete(ref: str, on: str, yes: bool, timeout: float | None) -> None:
    """Delete the repository REF with its daemon, its data and its grants."""
    target = Target.parse(ref)
    if not yes and not wants_json():
        click.confirm(f"delete {target} and everything in it?", abort=True, err=True)
    _change(target, on, "delete", timeout, "deleted")


@click.command("start")
@one.ref_argument
@many.timeout_option(120)
@output_option
def start(ref: str, on: str, timeout: float | None) -> None:
    """Start the daemon of the repository REF."""
    _change(Target.parse(ref), on, "start", timeout, "started")


@click.command("stop")
@one.ref_argument
@many.timeout_option(120)
@output_option
def stop(ref: str, on: str, timeout: float | None) -> None:
    """Stop the daemon of the repository REF, and with it its containers."""
    _change(Target.parse(ref), on, "stop", timeout, "stopped")


def _change(target: Target, on: str, verb: str, timeout: float | None, done: str) -> None:
    call = Call(
        ("repo", verb),
        operands=(str(target.ref),),
        changes=True,
        find_out=f"rdc repo list {target.machine or on}".strip(),
    )
    machine, data = one.ask_about(target, on, call, timeout)
    emit(data, lambda: click.echo(f"{done} {target.ref}@{machine}"))


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
