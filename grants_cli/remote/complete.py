"""What a shell may complete: machines as configured, the rest as machines told lately."""

from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem

from grants_cli.remote import cache, machines
from spec.errors import RediaccError


def _machines() -> list[str]:
    try:
        return [*machines.read().by_name, machines.LOCAL]
    except RediaccError:
        return []


def _items(values: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(value) for value in sorted(set(values)) if value.startswith(incomplete)]


def machine(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of machines."""
    return _items(_machines(), incomplete)


def repository(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of repositories; with their machine where the name is not enough, or once ``@`` is typed."""
    places: dict[str, list[str]] = {}
    for name, refs in cache.names("repositories").items():
        for ref in refs:
            places.setdefault(ref, []).append(name)
    qualified = [f"{ref}@{name}" for ref, names in places.items() for name in names]
    if "@" in incomplete:
        return _items(qualified, incomplete)
    several = {ref for ref, names in places.items() if len(names) > 1}
    return _items(
        [*(set(places) - several), *(q for q in qualified if q.partition("@")[0] in several)], incomplete
    )


def new_repository(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The machines that a new repository can be on."""
    ref, at, _ = incomplete.partition("@")
    return _items([f"{ref}@{name}" for name in _machines()], incomplete) if at else []


def device(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of devices: of the machine that the repository is on, where that is known."""
    # Behind an option that still lacks its value, click has not assigned the arguments yet.
    ref = ctx.params.get("ref") or "".join(ctx.args[:1])
    _, _, on = ref.partition("@")
    return _items((name for names in cache.names("devices", on).values() for name in names), incomplete)
