"""How holdings look in a table, and what must be said beside it."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import click

from grants_cli.containers import ask
from grants_cli.devices import Devices
from grants_cli.overview import Facts, Holding
from grants_cli.store import GrantStore
from grants_cli.times import to_text, utc_now
from spec.layout import Layout

ViewT = TypeVar("ViewT")

COLUMNS = ("DEVICE", "REPOSITORY", "GRANT", "SINCE", "RUNNING")
# Without containers.
GRANT_COLUMNS = COLUMNS[:-1]
_EVERY = 2.0

watch_option = click.option("--watch", is_flag=True, help="Show it again whenever it changes, until Ctrl-C.")


def facts_of(layout: Layout, *, containers: bool = True) -> Facts:
    """What is so on the machine now, with `containers` by asking each daemon; raises `UntrustedError`."""
    store = GrantStore(layout)
    register = store.read_register()
    answers = ask(register.repositories) if containers else {}
    return Facts(store.read(), register, answers, Devices(layout), utc_now())


def row(holding: Holding) -> tuple[str, ...]:
    """The cells of a holding under `COLUMNS`."""
    mark = " (gone)" if holding.is_gone else " (other card)" if holding.moved_to else ""
    running = ", ".join(holding.running) or ("?" if holding.problem else "-")
    return (holding.device + mark, holding.repository, _grant(holding), _since(holding), running)


def _grant(holding: Holding) -> str:
    grant = holding.grant
    if grant is None:
        return "none"
    if not holding.is_live and grant.expires_at:
        return f"expired {to_text(grant.expires_at)}"
    until = f" until {to_text(grant.expires_at)}" if grant.expires_at else ""
    return f"{'exclusive' if grant.exclusive else 'shared'}{until}"


def _since(holding: Holding) -> str:
    grant = holding.grant
    return f"{grant.granted_at:%Y-%m-%d} by {grant.granted_by}" if grant else "-"


def warnings(holdings: Iterable[Holding]) -> Iterator[str]:
    """What a person must know beside the table: one sentence each."""
    unknown = {}
    for holding in holdings:
        name, device = holding.repository, holding.device
        if holding.problem:
            unknown[holding.guid] = f"which containers run in {name} is not known: {holding.problem}"
        if holding.is_gone:
            yield f"no spec on this machine defines {device} any more, which {name} holds"
        if holding.moved_to and holding.grant:
            then, now = ", ".join(holding.grant.cards), ", ".join(holding.moved_to)
            yield f"{device} of {name} is another card now: {now}; it was granted as {then}"
        if holding.running and not holding.is_live:
            yield f"{', '.join(holding.running)} of {name} still runs with {device}, without a live grant"
    yield from unknown.values()


def watch(look: Callable[[], ViewT], show: Callable[[ViewT], None], *, again: bool) -> None:
    """Show what `look` finds; with `again` whenever it has changed, until the person has seen enough."""
    view = look()
    show(view)
    try:
        while again:
            time.sleep(_EVERY)
            last, view = view, look()
            if view != last:
                if sys.stdout.isatty():
                    click.clear()
                show(view)
                sys.stdout.flush()
    except KeyboardInterrupt:
        click.echo(err=True)


def paragraphs(lines: Sequence[str]) -> None:
    """Tell a person each of `lines` on stderr."""
    for line in lines:
        click.echo(f"warning: {line}", err=True)
