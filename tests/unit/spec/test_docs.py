"""What docs/cdi.md says of the library is so."""

import subprocess
import sys
from pathlib import Path

from spec.generate import generate
from spec.layout import Layout
from spec.mappings import fold
from tests import trees
from tests.pages import blocks

REPOSITORY = Path(__file__).parents[3]


def test_the_example_runs_and_says_what_it_should(tmp_path: Path) -> None:
    (example,) = [block for block in blocks() if block.page == "docs/cdi.md" and block.language == "python"]
    trees.intel_card(tmp_path)
    generate(Layout.at(tmp_path))
    text = example.text.replace("/etc/cdi", str(tmp_path / "etc/cdi"))
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, cwd=REPOSITORY, check=True
    )
    assert done.stdout == (
        "rediacc.io/dri=renderD128 ['/dev/dri/renderD128']\n3 devices no devices a spec has at least one\n"
    )


def test_a_generated_device_is_annotated_as_shown(tmp_path: Path) -> None:
    trees.amd_card(tmp_path)
    generate(Layout.at(tmp_path))
    (shown,) = [block for block in blocks() if block.page == "docs/cdi.md" and block.language == "yaml"]
    written = (tmp_path / "etc/cdi/rediacc.io-dri.yaml").read_text()
    for line in shown.text.splitlines():
        assert line.strip() in written


def test_fields_are_compared_as_go_compares_them() -> None:
    assert fold("\N{KELVIN SIGN}ind") == "kind"
    assert fold("device\N{LATIN SMALL LETTER LONG S}") == "devices"
    assert fold("K\N{LATIN SMALL LETTER DOTLESS I}ND") != "kind"
