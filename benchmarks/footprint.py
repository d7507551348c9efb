"""Memory by repositories, the cost of a decision by grants, and the time to start."""

import os
import subprocess
import sys
import time
from functools import partial

from benchmarks import clients
from benchmarks.messages import CREATE_REQUEST
from benchmarks.report import Report, microseconds
from benchmarks.servers import SOURCE, Gate

REPOSITORIES = (1, 100, 1_000)
GRANTS = (10, 10_000)


def memory(report: Report) -> None:
    """Memory of master and worker after each repository has been served once."""
    rows, sizes, starts = [], [], []
    for count in REPOSITORIES:
        with Gate(count) as gate:
            started = time.perf_counter()
            gate.serve()
            clients.keep_alive(gate.paths[-1], CREATE_REQUEST, 0.01)
            starts.append(time.perf_counter() - started)
            for path in gate.paths:
                with clients.connect(path) as sock:
                    clients.exchange(sock, CREATE_REQUEST.calls[0])
            sizes.append(gate.memory())
        rows.append([f"{count:,}", f"{sizes[-1] / 2**20:.1f} MiB", f"{starts[-1]:.2f} s"])
    report.table("Memory and start", ["repositories", "memory (PSS)", "start to first answer"], rows)
    report.target("memory with 1,000 repositories to 1", sizes[-1] / sizes[0], 1.5)


def grants(report: Report, seconds: float, turns: int) -> None:
    """A decision of a repository that holds one grant, by how many all repositories hold."""
    gathered: dict[int, list[float]] = {count: [] for count in GRANTS}
    with Gate(101, GRANTS[0]) as few, Gate(101, GRANTS[1]) as many:
        few.serve()
        many.serve()
        for _ in range(turns):
            for count, gate in zip(GRANTS, (few, many), strict=True):
                work = partial(clients.keep_alive, gate.paths[-1], CREATE_REQUEST, seconds)
                gathered[count] += clients.measure(1, work).seconds
    p50 = {count: clients.Times(times, 0).percentile(0.5) for count, times in gathered.items()}
    rows = [[f"{count:,}", microseconds(p50[count])] for count in GRANTS]
    report.table("A decision by grants on the machine", ["grants", "p50"], rows)
    report.target("decision with 10,000 grants to 10", p50[GRANTS[1]] / p50[GRANTS[0]], 1.05)


def imports(report: Report) -> None:
    """What the program takes before it does anything."""
    rows = []
    for name, arguments in (
        ("renet --help", ["--help"]),
        ("renet gate serve --help", ["gate", "serve", "--help"]),
    ):
        times = []
        for _ in range(5):
            started = time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", "machine_setup.renet", *arguments],
                env={**os.environ, "PYTHONPATH": str(SOURCE)}, stdout=subprocess.DEVNULL, check=True,
            )  # fmt: skip
            times.append(time.perf_counter() - started)
        rows.append([name, f"{min(times):.2f} s"])
    report.table("Commands", ["command", "best of 5"], rows)
