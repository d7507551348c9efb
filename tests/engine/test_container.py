"""The gate's own image, built from the distribution's packages and run as docs/container.md says."""

import os
import subprocess
import sys

import pytest

from tests.engine.container_story import SOURCE


@pytest.mark.slow
def test_the_gate_in_a_container_gates_a_daemon_of_the_host() -> None:
    # In a mount namespace of its own: the documented commands name the machine's own places.
    story = subprocess.run(
        ["unshare", "--mount", sys.executable, "-m", "tests.engine.container_story"],
        check=False,
        cwd=SOURCE,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert story.returncode == 0, story.stdout + story.stderr
