"""What a shell may complete after ``renet``: this machine's repositories and devices."""

from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem

from spec.errors import RediaccError
from spec.layout import Layout


def repository(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of repositories."""
    from grants_cli.store import read_register  # every command imports this module

    try:
        return _items(read_register(_layout(ctx)).by_ref, incomplete)
    except RediaccError:
        return []


def device(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of the machine's devices."""
    from spec import registry

    return _items(registry.read([_layout(ctx).cdi_dir]).names(), incomplete)


def granted_device(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of the devices that the repository on the command line has been granted."""
    from grants_cli.store import read_grants, read_register

    try:
        # Behind an option that still lacks its value, click has not assigned the arguments yet.
        repo = ctx.params.get("repo") or "".join(ctx.args[:1])
        guid = read_register(_layout(ctx)).get(repo).guid
        return _items((grant.device for grant in read_grants(_layout(ctx)).of(guid)), incomplete)
    except RediaccError:
        return []


def _layout(ctx: click.Context) -> Layout:
    # While completing, click parses the options of ``renet`` and does not run it.
    options = ctx.find_root().params
    return Layout.at(options.get("root") or "/", options.get("plugin_dir"))


def _items(values: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(value) for value in sorted(values) if value.startswith(incomplete)]
