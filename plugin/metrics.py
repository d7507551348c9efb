"""What the gate tells Prometheus: decisions, how long they took, grants, and files that it cannot read.

It is off unless the operator gives an address, and whoever reaches that address reads it: the names of
repositories are in it.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from gevent.pool import Pool
from gevent.pywsgi import WSGIServer
from gevent.socket import socket as gevent_socket
from prometheus_client import CollectorRegistry, Counter, Histogram, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from plugin.decide import Decision

#: Seconds. A decision takes about 0.1 ms; one that asks the daemon for what it has stored takes some ms.
BUCKETS = (0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)
#: Connections of scrapers at once: whoever holds them keeps others from the metrics, and from nothing else.
_SCRAPERS = 8


class Source(Protocol):
    """What the gate can tell of itself when it is asked."""

    def live_grants(self) -> Mapping[str, int]:
        """How many grants admit something now, by repository; raises nothing."""

    def failed_reads(self) -> Mapping[str, int]:
        """How often each of its files could not be read, by the file's name."""


class _State(Collector):
    """What is looked up when it is scraped."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def collect(self) -> Iterable[Metric]:
        grants = GaugeMetricFamily("rediacc_gate_grants", "Live grants.", labels=["repository"])
        for repository, count in self._source.live_grants().items():
            grants.add_metric([repository], count)
        yield grants
        errors = CounterMetricFamily(
            "rediacc_gate_reload_errors", "Attempts to read a file that failed.", labels=["file"]
        )
        for name, count in self._source.failed_reads().items():
            errors.add_metric([name], count)
        yield errors


class Metrics:
    """The metrics of one worker; they begin at zero with each, as Prometheus expects of a process."""

    def __init__(self, source: Source) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_State(source))
        self._decisions = Counter(
            "rediacc_gate_decisions",
            "Decisions on requests of the Docker API.",
            ["repository", "outcome", "rule"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "rediacc_gate_decision_seconds",
            "Time from a whole message to its decision.",
            ["outcome"],
            buckets=BUCKETS,
            registry=self._registry,
        )

    def decided(self, repository: str, decision: Decision, seconds: float) -> None:
        """Count `decision`, which took `seconds`."""
        outcome = "allow" if decision.allow else "deny"
        rule = decision.denial.rule if decision.denial else ""
        self._decisions.labels(repository, outcome, rule).inc()
        self._seconds.labels(outcome).observe(seconds)

    def serve(self, listener: gevent_socket) -> WSGIServer:
        """Answer scrapers on the listening socket `listener` until the server that is returned is stopped."""
        application = make_wsgi_app(self._registry)
        server = WSGIServer(listener, application, log=None, error_log=None, spawn=Pool(_SCRAPERS))
        server.start()
        return server
