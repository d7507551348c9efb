"""The lab machine for tests marked `lab`."""

from collections.abc import Iterator

import pytest

from tests.engine.refusal import Refusal
from tests.lab.image import Image, image
from tests.lab.machine import Machine


@pytest.fixture(scope="session")
def lab_image() -> Image:
    """The image that ``REDIACC_LAB_SUITE`` names, built where the cache lacks it."""
    try:
        return image()
    except Refusal as refusal:
        pytest.fail(str(refusal), pytrace=False)


@pytest.fixture(scope="module")
def lab(lab_image: Image) -> Iterator[Machine]:
    """A freshly booted machine for the tests of one module, without this project on it."""
    with Machine(lab_image) as machine:
        yield machine
