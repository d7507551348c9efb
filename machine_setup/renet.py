"""``renet``: the command on the machine. It mounts every package's commands and has none of its own."""

from pathlib import Path

import click

from spec import __version__
from spec.console import LazyGroup
from spec.console import run as run_command
from spec.layout import PLUGIN_DIR_VARIABLE, ROOT_VARIABLE, Layout

_GPU = LazyGroup(
    "gpu",
    help="Grant devices to repositories, and see who has which.",
    lazy={
        "explain": "plugin.commands:explain",
        "check": "grants_cli.commands.check:check",
        "grant": "grants_cli.commands.grant:grant",
        "grants": "grants_cli.commands.grants:grants",
        "list": "grants_cli.commands.list:list_command",
        "restore": "grants_cli.commands.restore:restore",
        "revoke": "grants_cli.commands.revoke:revoke",
        "status": "grants_cli.commands.status:status",
        "who": "grants_cli.commands.who:who",
    },
)
_CDI = LazyGroup(
    "cdi",
    help="Look at the CDI specs that describe the machine's devices, and write ours.",
    lazy={
        "close": "machine_setup.doctor.close:close",
        "generate": "spec.commands:generate",
        "list": "spec.commands:list_command",
        "schema": "spec.commands:schema",
        "show": "spec.commands:show",
        "validate": "spec.commands:validate",
    },
)
_REPO = LazyGroup(
    "repo",
    help="Make, adopt, fork and delete repositories, and run their daemons.",
    lazy={
        "adopt": "machine_setup.repository.commands.adopt:adopt",
        "create": "machine_setup.repository.commands.create:create",
        "delete": "machine_setup.repository.commands.delete:delete",
        "fork": "machine_setup.repository.commands.fork:fork",
        "list": "machine_setup.repository.commands.list:list_command",
        "prepare": "machine_setup.repository.commands.internal:prepare_command",
        "rename": "machine_setup.repository.commands.rename:rename",
        "repair": "machine_setup.repository.commands.repair:repair",
        "run": "machine_setup.repository.commands.running:run",
        "start": "machine_setup.repository.commands.running:start",
        "stop": "machine_setup.repository.commands.running:stop",
        "views": "machine_setup.repository.commands.internal:views",
    },
)
_GATE = LazyGroup(
    "gate",
    help="Run the gate in front of the repositories' daemons, and check its configuration.",
    lazy={
        "check": "plugin.commands:check",
        "health": "plugin.commands:health",
        "serve": "plugin.commands:serve",
    },
)


@click.group(
    cls=LazyGroup,
    lazy={
        "completion": "machine_setup.completion:completion",
        "doctor": "machine_setup.doctor.commands:doctor",
        "setup": "machine_setup.setup.command:setup",
    },
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--root",
    envvar=ROOT_VARIABLE,
    type=click.Path(file_okay=False, path_type=Path),
    default="/",
    show_default=True,
    show_envvar=True,
    help="Where the machine's files are.",
)
@click.option(
    "--plugin-dir",
    envvar=PLUGIN_DIR_VARIABLE,
    type=click.Path(file_okay=False, path_type=Path),
    show_envvar=True,
    help="Where plugin sockets go; below --root unless given.",
)
@click.version_option(__version__, prog_name="renet")
@click.pass_context
def renet(ctx: click.Context, root: Path, plugin_dir: Path | None) -> None:
    """Share this machine's GPUs between repositories: detect, grant, gate, check."""
    ctx.obj = Layout.at(root, plugin_dir)


for _group in (_GPU, _CDI, _REPO, _GATE):
    renet.add_command(_group)


def main() -> None:
    """The entry point of ``renet``."""
    run_command(renet, "renet")


if __name__ == "__main__":
    main()
