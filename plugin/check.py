"""What the gate rests on, looked at before it is needed: `renet gate check`."""

from dataclasses import asdict, dataclass

from grants_cli.register import Register
from grants_cli.store import read_grants, read_register
from plugin.gate import Gate
from plugin.options import Options, read_options
from plugin.rules.relax import ALWAYS
from spec.errors import RediaccError
from spec.layout import Layout


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. `is_broken`: the gate denies what rests on it."""

    what: str
    said: str
    is_broken: bool = False
    hint: str = ""

    def record(self) -> dict[str, object]:
        """It as JSON has it."""
        return asdict(self)

    def __str__(self) -> str:
        mark = "wrong" if self.is_broken else "ok"
        hint = f"\n       {self.hint}" if self.hint else ""
        return f"{mark:5}  {self.what}: {self.said}{hint}"


def check(layout: Layout) -> tuple[Finding, ...]:
    """What the gate of the machine `layout` would find now."""
    findings: list[Finding] = []
    register = Register()
    options = Options()
    try:
        register = read_register(layout)
        findings.append(Finding("repositories", f"{len(register.repositories)} registered"))
    except RediaccError as error:
        findings.append(_broken("repositories", error))
    try:
        grants = read_grants(layout)
        findings.append(Finding("grants", f"{sum(map(len, grants.by_guid.values()))} recorded"))
    except RediaccError as error:
        findings.append(_broken("grants", error))
    try:
        options = read_options(layout.gate_options)
        log = "all decisions" if options.log_all else "denials and uses of grants"
        findings.append(Finding("options", f"{layout.gate_options}, logging {log}"))
    except RediaccError as error:
        findings.append(_broken("options", error))
    findings += _relaxations(register, options)
    gate = Gate(layout)
    for repository in register.repositories:
        problem = gate.build_problem(repository)
        said = f"refused: {problem}" if problem else "allowed, their entitlements are closed"
        findings.append(Finding(f"builds of {repository.ref}", said, hint=_BUILD_HINT if problem else ""))
    return tuple(findings)


_BUILD_HINT = "renet doctor says how to close it"


def _relaxations(register: Register, options: Options) -> list[Finding]:
    findings = []
    for ref, allowed in sorted(options.allow.items()):
        rules = [
            rule if names == {ALWAYS} else f"{rule} ({', '.join(sorted(names))})"
            for rule, names in sorted(allowed.items())
        ]
        known = ref in register.by_ref
        said = f"may do beyond the host rules: {'; '.join(rules)}"
        hint = "" if known else "no repository of this name is registered: is it spelled right?"
        findings.append(Finding(f"options for {ref}", said, hint=hint))
    return findings


def _broken(what: str, error: RediaccError) -> Finding:
    return Finding(what, error.message, is_broken=True, hint=error.hint)
