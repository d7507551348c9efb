"""What every engine test may ask for. A machine that cannot serve fails the tests: they are never skipped."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.engine import stand_in
from tests.engine.daemon import Daemon
from tests.engine.obtain import Engine, obtain
from tests.engine.refusal import Refusal

StartDaemon = Callable[..., Daemon]


@pytest.fixture(scope="session")
def engine() -> Engine:
    """The engine that ``REDIACC_TEST_ENGINE`` names, or the default one."""
    if os.geteuid() != 0:
        pytest.fail("the engine tests start dockerd, which needs root", pytrace=False)
    try:
        return obtain()
    except Refusal as refusal:
        pytest.fail(str(refusal), pytrace=False)


@pytest.fixture
def start_daemon(engine: Engine) -> Iterator[StartDaemon]:
    """Starts daemons of the test's own (see `ready_daemon`); all end with the test."""
    with ExitStack() as stack:

        def start(
            configuration: Mapping[str, object] | None = None,
            *,
            plugin_dir: Path | None = None,
            image: bool = True,
        ) -> Daemon:
            return stack.enter_context(
                ready_daemon(engine, configuration, plugin_dir=plugin_dir, image=image)
            )

        yield start


@pytest.fixture(scope="session")
def plain_daemon(engine: Engine) -> Iterator[Daemon]:
    """One daemon without a gate, for all tests that leave nothing behind in it."""
    with ready_daemon(engine) as daemon:
        yield daemon


@contextmanager
def ready_daemon(
    engine: Engine,
    configuration: Mapping[str, object] | None = None,
    *,
    plugin_dir: Path | None = None,
    image: bool = True,
) -> Iterator[Daemon]:
    """A started daemon with the GPU stand-ins and, unless `image` is false, the busybox image.

    The image is imported through the daemon's API: a plugin that `configuration` names must allow that.
    """
    daemon = Daemon(engine, configuration, plugin_dir=plugin_dir)
    stand_in.write_gpus(daemon.cdi_dir)
    with daemon:
        if image:
            daemon.load_image()
        yield daemon
