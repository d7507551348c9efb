"""A judgment in rounds: the pure decision says which facts it lacks, and is asked again when they are
there.
"""

from collections.abc import Callable
from dataclasses import replace

from plugin.context import Answer, Query
from plugin.decide import Context, Decision, Request, decide

#: A start asks for the container, then for its volumes, then for what those bind: nothing asks a fourth time.
MAX_ROUNDS = 4

Ask = Callable[[tuple[Query, ...]], dict[Query, Answer]]


def judge(request: Request, context: Context, ask: Ask, thorough: bool = False) -> Decision:
    """The decision on `request` once nothing is missing: `ask` answers, and what it cannot answer denies.

    When `thorough`, it goes on asking after it has found a reason to deny, for the sake of further ones.
    """
    decision = decide(request, context)
    for _ in range(MAX_ROUNDS):
        if not decision.missing or (decision.final and not thorough):
            break
        context = replace(context, facts={**context.facts, **ask(decision.missing)})
        decision = decide(request, context)
    return decision
