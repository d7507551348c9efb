"""Networks: bridges are the daemon's own, other drivers attach to the host's network cards."""

from collections.abc import Iterator
from typing import cast

from plugin.context import Context, JsonObject
from plugin.denial import Denial
from plugin.rules.relax import relaxable

DRIVERS = frozenset({"bridge", "null"})
IPAM_DRIVERS = frozenset({"default", "null"})


def network(body: JsonObject, context: Context) -> Iterator[Denial]:
    """A network to be made."""
    driver = cast("str", body.get("Driver") or "bridge")
    if driver not in DRIVERS:
        yield _refused(f"the network driver {driver[:100]}", driver, "Driver", context)
    ipam = cast("JsonObject", body.get("IPAM") or {})
    ipam_driver = cast("str", ipam.get("Driver") or "default")
    if ipam_driver not in IPAM_DRIVERS:
        yield _refused(f"the IPAM driver {ipam_driver[:100]}", f"ipam={ipam_driver}", "IPAM.Driver", context)
    if (body.get("Scope") or "local") != "local":
        yield _refused("a network of this scope", "scope", "Scope", context)
    for field in ("Ingress", "ConfigOnly"):
        if body.get(field):
            yield _refused(f"a network with {field}", field, field, context)
    source = cast("JsonObject", body.get("ConfigFrom") or {})
    if source.get("Network"):
        yield _refused(
            "a network that takes its configuration from another", "ConfigFrom", "ConfigFrom", context
        )


def _refused(what: str, subject: str, field: str, context: Context) -> Denial:
    message = f"{what} is refused on this machine"
    return relaxable("host-network-driver", message, subject, field, context)
