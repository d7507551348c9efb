"""``renet cdi close``: a spec no longer offers its devices to builds."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import click

from plugin.builds import AUTO_ALLOW
from spec.console import emit, output_option
from spec.model import Spec
from spec.reader import read_spec
from spec.writer import write_spec


@click.command("close")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@output_option
def close(file: Path) -> None:
    """Take from the CDI spec FILE the annotation by which BuildKit gives devices to builds unasked.

    What generated the file may write the annotation again: tell it not to.

    \b
    renet cdi close /etc/cdi/vendor.yaml
    """
    changed = write_spec(file, without_auto_allow(read_spec(file)))
    emit(
        {"file": str(file), "changed": changed},
        lambda: click.echo(
            f"{file} {'no longer offers' if changed else 'does not offer'} its devices to builds"
        ),
    )


def without_auto_allow(spec: Spec) -> Spec:
    """`spec` without the annotation, on itself and on its devices."""
    devices = tuple(replace(device, annotations=_others(device.annotations)) for device in spec.devices)
    return replace(spec, annotations=_others(spec.annotations), devices=devices)


def _others(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in annotations.items() if key != AUTO_ALLOW}
