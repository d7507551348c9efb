"""The documents' commands for a bare machine, typed as they stand on the lab machine."""

import pytest

from tests.lab.machine import Machine
from tests.pages import pages_of, script

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def installed(lab: Machine) -> Machine:
    """The lab machine with this project on it; a page finds what the pages before it left."""
    lab.install_project()
    return lab


@pytest.mark.parametrize("page", pages_of("lab"))
def test_the_commands_of_a_page_work(page: str, installed: Machine) -> None:
    installed.run("bash -s", input=script(page, "lab"), timeout=900)
