"""The step that looks at the machine."""

from collections import Counter

from machine_setup.detect.machine import detect
from machine_setup.setup.context import Context
from machine_setup.setup.steps import Plan


class DetectionStep:
    """See what GPUs are here; the steps after it work on what it saw."""

    name = "GPUs"

    def plan(self, context: Context) -> Plan:
        """No changes: only what was found, and what is wrong with it."""
        context.machine = detect(context.layout.root, context.programs)
        vendors = Counter(gpu.vendor for gpu in context.machine.gpus)
        found = ", ".join(f"{count} {vendor}" for vendor, count in sorted(vendors.items()))
        return Plan(
            found=f"{found or 'none'} ({context.machine.platform})", warnings=context.machine.warnings
        )
