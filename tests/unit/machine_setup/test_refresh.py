"""Whatever an operator has in nvidia-cdi-refresh's file, set-up changes the output in it and nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from machine_setup.setup import refresh

OUTPUT = refresh.OUTPUT_VARIABLE
LINES = st.sampled_from(
    [
        "",
        "# a comment",
        "; another",
        "  NVIDIA_CTK_DEBUG=true",
        "NVIDIA_CTK_CDI_GENERATE_MODE='nvml'",
        'NVIDIA_DRIVER_ROOT="/opt/driver"',
        "not an assignment",
        f"{OUTPUT}=/var/run/cdi/nvidia.yaml",
        f"  {OUTPUT} = /srv/x.yaml",
        f"# {OUTPUT}=/var/run/cdi/nvidia.yaml",
        "PATH=/usr/bin=odd",
        "ungültig=ä\udcff",
    ]
)
TEXTS = st.lists(LINES).map(lambda lines: "".join(f"{line}\n" for line in lines))


@given(TEXTS)
def test_the_output_is_redirected_and_every_other_setting_stays(text: str) -> None:
    directed = refresh._directed(text)
    assert refresh.settings(directed)[OUTPUT] == "/etc/cdi/nvidia.yaml"
    others = [line for line in text.splitlines() if OUTPUT not in refresh.settings(line)]
    assert directed.splitlines()[: len(others)] == others


@given(TEXTS)
def test_doing_it_again_changes_nothing_and_undoing_it_leaves_the_rest(text: str) -> None:
    directed = refresh._directed(text)
    assert refresh._directed(directed) == directed
    assert refresh._undirected(directed) == refresh._undirected(text)


def test_the_last_assignment_wins_as_in_systemd() -> None:
    assert refresh.settings(f"{OUTPUT}=/a\n{OUTPUT}='/b'\n") == {OUTPUT: "/b"}
