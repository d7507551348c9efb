"""The gate's commands."""

from dataclasses import replace
from pathlib import Path
from typing import IO

import click

from spec.console import emit, layout, output_option


@click.command()
@click.option(
    "--host",
    envvar="REDIACC_HOST",
    show_envvar=True,
    type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
    default="/",
    show_default=True,
    help="Where the daemons' file system is mounted, for a gate that runs in a container.",
)
@click.option(
    "--metrics",
    envvar="REDIACC_METRICS",
    show_envvar=True,
    metavar="HOST:PORT",
    default="",
    help="Where Prometheus may scrape the gate; nowhere if it is left out. Whoever reaches it may read it.",
)
def serve(host: Path, metrics: str) -> None:
    """Run the gate in the foreground, for every registered repository.

    It answers on one socket for each repository, in /run/docker/plugins unless --plugin-dir says
    otherwise, until it is interrupted. While it is away, every repository's Docker refuses everything.

    \b
    Examples:
      renet gate serve
      renet gate serve --metrics 127.0.0.1:9464
      renet gate serve --host /host     # in a container, with -v /:/host:ro,rslave
    """
    from plugin.serve import serve as serve_gate  # gevent and Flask cost 0.3 s

    serve_gate(replace(layout(), host=host), metrics)


@click.command()
@output_option
def health() -> None:
    """Ask the gate on every repository's socket whether it answers.

    Exits with 6 where one is silent.

    \b
    Examples:
      renet gate health
      docker exec rediacc-gate renet gate health
    """
    from plugin.health import health as ask  # start-up

    found = ask(layout())
    emit(found.record(), lambda: click.echo(f"the gate answers on {found.sockets} sockets"))


@click.command()
@output_option
def check() -> None:
    """Check what the gate rests on: its options, the register, the grants and each daemon's builds.

    Exits with 12 where a file cannot be trusted.

    \b
    Examples:
      renet gate check
      renet gate check -o json
    """
    from plugin.check import check as check_gate  # start-up

    findings = check_gate(layout())
    emit([finding.record() for finding in findings], lambda: click.echo("\n".join(map(str, findings))))
    if any(finding.is_broken for finding in findings):
        click.get_current_context().exit(12)


def _repositories(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    from grants_cli.store import read_register  # start-up
    from spec.layout import Layout

    known = ctx.find_object(Layout) or Layout.from_environment()
    return [ref for ref in read_register(known).by_ref if ref.startswith(incomplete)]


@click.command()
@click.argument("repo", shell_complete=_repositories)
@click.argument("file", type=click.File("rb"), default="-")
@output_option
def explain(repo: str, file: IO[bytes]) -> None:
    """Say what the gate would answer to REPO, with each problem, its rule and what to write instead.

    FILE (standard input if it is left out) is a Compose file, the JSON body of POST /containers/create, a
    request as the gate's protocol carries it, or what docker inspect prints of a container: would it start?

    \b
    Examples:
      renet gpu explain gpu-a compose.yaml
      docker inspect web | renet gpu explain gpu-a
      renet gpu explain gpu-a body.json -o json
    """
    from grants_cli.store import read_register  # start-up
    from plugin.explain import explain as explain_request
    from plugin.gate import Gate

    machine = layout()
    repository = read_register(machine).get(repo)
    gate = Gate(machine)
    directory = Path(file.name).absolute().parent if file.name != "<stdin>" else Path.cwd()
    answer = explain_request(
        file.read(), directory, gate.context(repository), lambda queries: gate.answer(repository, queries)
    )
    emit(answer.record(), lambda: click.echo(answer.text()))
