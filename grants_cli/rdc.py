"""``rdc``: the operator's command on any workstation. It runs ``renet`` there and shows the answer."""

import click

from spec import __version__
from spec.console import LazyGroup
from spec.console import run as run_command

_COMMANDS = "grants_cli.remote.commands"

_MACHINE_GPU = LazyGroup(
    "gpu",
    help="Look at the GPUs of machines.",
    lazy={"list": f"{_COMMANDS}.gpu:list_command"},
)
_MACHINE = LazyGroup(
    "machine",
    help="Say which machines there are, set them up and check them.",
    lazy={
        "add": f"{_COMMANDS}.machine:add",
        "doctor": f"{_COMMANDS}.setup:doctor",
        "list": f"{_COMMANDS}.machine:list_command",
        "remove": f"{_COMMANDS}.machine:remove",
        "setup": f"{_COMMANDS}.setup:setup",
    },
)
_MACHINE.add_command(_MACHINE_GPU)
_REPO_GPU = LazyGroup(
    "gpu",
    help="Grant devices to a repository, and see what it may use.",
    lazy={
        "explain": f"{_COMMANDS}.grant:explain",
        "grant": f"{_COMMANDS}.grant:grant",
        "list": f"{_COMMANDS}.grant:list_command",
        "revoke": f"{_COMMANDS}.grant:revoke",
        "who": f"{_COMMANDS}.grant:who",
    },
)
_REPO = LazyGroup(
    "repo",
    help="Make, adopt, fork and delete repositories.",
    lazy={
        "adopt": f"{_COMMANDS}.repo:adopt",
        "create": f"{_COMMANDS}.repo:create",
        "delete": f"{_COMMANDS}.repo:delete",
        "fork": f"{_COMMANDS}.repo:fork",
        "list": f"{_COMMANDS}.repo:list_command",
        "start": f"{_COMMANDS}.repo:start",
        "stop": f"{_COMMANDS}.repo:stop",
    },
)
_REPO.add_command(_REPO_GPU)
_GPU = LazyGroup(
    "gpu",
    help="Look at the GPUs of all machines at once.",
    lazy={"list": f"{_COMMANDS}.gpu:list_everywhere"},
)


@click.group(
    cls=LazyGroup,
    lazy={
        "completion": f"{_COMMANDS}.completion:completion",
        "refresh-completion": f"{_COMMANDS}.completion:refresh",
    },
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="rdc")
def rdc() -> None:
    """Share the GPUs of any machine from where you sit.

    \b
    rdc machine add lab --host ops@lab.example.org
    rdc machine setup lab
    rdc repo create gpu-a@lab
    rdc repo gpu grant gpu-a --device nvidia.com/gpu=0 --expires 8h

    A repository is name[:tag][@machine]. Without @machine it is the only machine that has it.
    """


for _group in (_MACHINE, _REPO, _GPU):
    rdc.add_command(_group)


def main() -> None:
    """The entry point of ``rdc``."""
    run_command(rdc, "rdc")


if __name__ == "__main__":
    main()
