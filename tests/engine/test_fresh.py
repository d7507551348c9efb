"""What README has a newcomer type works on a bare Debian, which has neither Python nor Docker."""

import pytest

from tests.engine.fresh import fresh
from tests.pages import commands

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_the_commands_of_the_readme_bring_what_they_need(suite: str) -> None:
    demo, test = commands("README.md", "checkout")
    with fresh(suite) as machine:
        shown = machine.run(demo)
        assert (shown.returncode, "opened /dev/nvidia0" in shown.stdout) == (0, True), shown.stdout
        # All tests take too long twice: one that starts Docker, after the checks of the code.
        tested = machine.run(f"{test} tests/engine/test_main_job.py")
        assert tested.returncode == 0, tested.stdout
        assert " passed" in tested.stdout
