"""The step that writes the rediacc.io specs: a device per render node, and AMD's cards."""

from dataclasses import dataclass

from machine_setup.setup.changes import Change, RemoveFile, WriteFile
from machine_setup.setup.context import Context
from machine_setup.setup.steps import Plan
from spec.generate import generate
from spec.layout import Layout


@dataclass(frozen=True, kw_only=True)
class _Write(WriteFile):
    """Write a spec, by a look at the machine of that very moment: nodes may come while a set-up runs."""

    layout: Layout

    def apply(self) -> None:
        """Generate both specs, under their lock; where nothing is left to do, nothing happens."""
        generate(self.layout)


@dataclass(frozen=True, kw_only=True)
class _Withdraw(RemoveFile):
    """Remove the spec of a kind that has no device left."""

    layout: Layout

    def apply(self) -> None:
        """Generate both specs, under their lock; where nothing is left to do, nothing happens."""
        generate(self.layout)


class RediaccSpecsStep:
    """Make rediacc.io-dri.yaml and rediacc.io-amd.yaml say what the machine has now."""

    name = "rediacc.io specs"

    def plan(self, context: Context) -> Plan:
        """The specs that differ; one whose last device is gone is removed."""
        layout = context.layout
        outcomes = generate(layout, dry_run=True).outcomes
        changes: list[Change] = []
        for outcome in outcomes:
            if outcome.action == "written":
                changes.append(_Write(outcome.path, outcome.content, layout=layout))
            elif outcome.action == "removed":
                changes.append(_Withdraw(outcome.path, layout=layout))
        names = sum(len(outcome.names) for outcome in outcomes)
        return Plan(changes, f"{names} devices" if names else "no render node here")
