"""Every document's commands are run by some test, and its links lead somewhere."""

import re

import pytest

from tests.pages import PLACES, ROOT, blocks, commands, pages, pages_of, read_blocks, script

# What is shown but not typed: output, files, and commands of other tools' worlds.
SHOWN = {"", "text", "json", "yaml", "ini", "python", "dockerfile"}


def test_every_command_block_says_where_it_runs() -> None:
    for block in blocks():
        where = f"{block.page}, line {block.line}"
        if block.language == "sh":
            assert block.place in PLACES, f"{where}: no place is said for its commands"
        else:
            assert block.language in SHOWN, f"{where}: {block.language} is neither sh nor {sorted(SHOWN)}"
            typed = [
                line for line in block.text.splitlines() if re.match(r"(\$ |# )?(renet|rdc|docker) ", line)
            ]
            assert block.language == "text" or not typed, f"{where}: commands that no test types: {typed}"


def test_a_page_becomes_one_script() -> None:
    page = "<!-- commands run: engine -->\n```sh\ntrue\nfalse  # refused\n```\n```text\nno\n```\n"
    assert [(block.place, block.language, block.line) for block in read_blocks("p.md", page)] == [
        ("engine", "sh", 2),
        ("engine", "text", 6),
    ]
    assert script("README.md", "engine").startswith("set -euo pipefail\n")


@pytest.mark.parametrize("page", ["docs/README.ja.md", "docs/README.tr.md"])
@pytest.mark.parametrize("place", ["checkout", "operator"])
def test_a_translation_types_what_the_readme_types(page: str, place: str) -> None:
    assert commands(page, place) == commands("README.md", place) != []


def test_every_page_for_a_single_test_is_one_that_it_types() -> None:
    translations = {"docs/README.ja.md", "docs/README.tr.md"}
    assert set(pages_of("operator")) - translations == {"README.md", "docs/rdc.md"}
    # The demonstration has a test of its own; the other commands of a checkout are those that run the tests.
    assert set(pages_of("checkout")) - translations == {"README.md", "CONTRIBUTING.md"}
    assert pages_of("container") == ["docs/container.md"]


@pytest.mark.parametrize("page", [str(path.relative_to(ROOT)) for path in pages()])
def test_links_within_the_project_lead_somewhere(page: str) -> None:
    path = ROOT / page
    for target in re.findall(r"\]\(([^)#\s]+)", path.read_text()):
        if "://" not in target and not target.startswith("mailto:"):
            assert (path.parent / target).exists(), f"{page} links to {target}"
