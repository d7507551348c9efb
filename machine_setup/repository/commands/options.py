"""What several of these commands take and print."""

from collections.abc import Callable
from ipaddress import AddressValueError, IPv4Network, NetmaskValueError
from typing import Any, TypeVar

import click

from grants_cli.register import Repository
from machine_setup.repository.lifecycle import Wishes
from spec.console import layout
from spec.errors import InvalidNameError

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def new_repository_options(function: FunctionT) -> FunctionT:
    """Add what an operator may choose about a new repository."""
    for option in (
        click.option("--dry-run", is_flag=True, help="Say what would be made, and make nothing."),
        click.option("--no-start", is_flag=True, help="Leave its daemon stopped."),
        click.option("--subnet", metavar="CIDR", help="Its addresses. [default: the first /18 that is free]"),
        click.option(
            "--network",
            type=click.Choice(["bridge", "host"]),
            default="bridge",
            show_default=True,
            help="A bridge of its own with NAT, or none: containers then use --network host.",
        ),
        click.option("--group", default="", metavar="GROUP", help="May use its Docker socket, beside root."),
    ):
        function = option(function)
    return function


def wishes(group: str, network: str, subnet: str | None) -> Wishes:
    """The options as a value; raises `InvalidNameError` for what is no subnet."""
    try:
        return Wishes(group, network == "bridge", IPv4Network(subnet) if subnet else None)
    except (AddressValueError, NetmaskValueError, ValueError) as error:
        raise InvalidNameError(f"{subnet} is no subnet: {error}", "write it as 10.90.0.0/18") from error


def described(repository: Repository) -> dict[str, object]:
    """A repository as JSON shows it."""
    return {
        "guid": repository.guid,
        "slug": repository.slug,
        **repository.to_record(),
        "plugin": layout().plugin_socket(repository.slug).stem,
    }


def show_access(repository: Repository) -> None:
    """Tell how a tenant starts."""
    click.echo(f"  export DOCKER_HOST=unix://{repository.socket}")
    click.echo(
        f"  docker context create {repository.slug} --docker host=unix://{repository.socket}"
        f" && docker context use {repository.slug}"
    )
