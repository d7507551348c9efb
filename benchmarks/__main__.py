"""One command that measures everything and prints it: ``python -m benchmarks``."""

import argparse
from pathlib import Path

from benchmarks import engine, footprint, sockets
from benchmarks.report import Report, machine

PARTS = ("sockets", "share", "memory", "grants", "commands", "engine")


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure the gate beside a plugin that does nothing, on an otherwise idle machine.",
        epilog="The part `engine` starts dockerd, as root.",
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the time, and figures to match")
    parser.add_argument("--only", action="append", choices=PARTS, help="measure this part; may be repeated")
    parser.add_argument("--output", type=Path, help="write the tables to this file, too")
    options = parser.parse_args()
    seconds, turns, rounds = (0.3, 2, 5) if options.quick else (1.0, 6, 40)
    parts = options.only or PARTS
    report = Report()
    report.say(f"Measured on {machine()}.")
    if "sockets" in parts:
        sockets.compare(report, seconds, turns)
    if "share" in parts:
        sockets.share(report, seconds * 4)
    if "memory" in parts:
        footprint.memory(report)
    if "grants" in parts:
        footprint.grants(report, seconds, turns)
    if "commands" in parts:
        footprint.imports(report)
    if "engine" in parts:
        engine.compare(report, rounds)
    report.finish()
    if options.output:
        options.output.write_text("\n".join(report.lines) + "\n")


if __name__ == "__main__":
    main()
