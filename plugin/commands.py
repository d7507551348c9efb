"""The gate's commands."""

import click

from spec.console import layout


@click.command()
def serve() -> None:
    """Run the gate in the foreground, for every registered repository.

    It answers on one socket for each repository, in /run/docker/plugins unless --plugin-dir says
    otherwise, until it is interrupted. While it is away, every repository's Docker refuses everything.

    \b
    Example:
      renet gate serve
    """
    from plugin.serve import serve as serve_gate  # noqa: PLC0415 - gevent and Flask cost 0.3 s

    serve_gate(layout())
