"""A machine with two GPUs, each under three names, for the stress scripts."""

from pathlib import Path

from grants_cli import repositories
from grants_cli.refs import Ref
from grants_cli.register import Register, Repository
from grants_cli.store import register_document
from grants_cli.times import utc_now
from spec.files import replace_file
from spec.layout import Layout
from tests.unit.grants_cli.specs import CONTROL, write_spec

#: Two GPUs, each known by its index, its UUID and its render node, which another spec defines.
ALIASES = (
    ("nvidia.com/gpu=0", "nvidia.com/gpu=GPU-aaaaaaaa", "rediacc.io/dri=renderD128"),
    ("nvidia.com/gpu=1", "nvidia.com/gpu=GPU-bbbbbbbb", "rediacc.io/dri=renderD129"),
)


def make(root: Path, count: int) -> tuple[Layout, tuple[Repository, ...]]:
    """A machine below `root` with `count` repositories named ``r0``, ``r1``, ….

    The nodes are not this computer's: what it has must not decide.
    """
    layout = Layout.at(root)
    cards = [["/dev/nvidia7", "/dev/dri/renderD190"], ["/dev/nvidia8", "/dev/dri/renderD191"]]
    nvidia = {"0": cards[0], "GPU-aaaaaaaa": cards[0], "1": cards[1], "GPU-bbbbbbbb": cards[1]}
    write_spec(layout, "nvidia.com/gpu", nvidia, CONTROL)
    write_spec(layout, "rediacc.io/dri", {"renderD128": cards[0][1:], "renderD129": cards[1][1:]})
    tenants = tuple(_repository(layout, f"r{number}") for number in range(count))
    replace_file(layout.register, register_document(Register(tenants)), 0o600)
    return layout, tenants


def _repository(layout: Layout, name: str) -> Repository:
    ref, guid = Ref.parse(name), repositories.new_guid()
    places = repositories.Places.managed(layout, ref, guid)
    return Repository(guid, ref, places.socket, places.data_root, places.daemon_json, True, utc_now())
