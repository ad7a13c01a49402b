"""What answers in rooms have cost, for the owner who has attested the key that gave them (NIP-AM).

One report follows each run that ends, with all that its calls have cost, and each answer of the router. A cost that
comes late, of a call that was cancelled, is a report of its own. The reports are part of the append that ends the run,
so none is lost, and none is made twice.
"""

from collections.abc import Iterable

from tenex.core import records as r
from tenex.core.ids import RunId
from tenex.core.messages import NO_USAGE, Usage
from tenex.core.people.trust import group_of
from tenex.core.port_values import TurnCost
from tenex.core.totals.costs import cost_of, model_of, spender_of
from tenex.core.transaction import Transaction


def report_costs(transaction: Transaction) -> None:
    """Report what the records of this decision have cost, where a run is over or there is none."""
    if not transaction.policy.cost_owners or not group_of(transaction.state.identity.address):
        return
    reported: set[RunId] = set()
    for record in tuple(transaction.records):
        run: RunId | None = getattr(record, "run", None)
        if run is None:
            usage = cost_of(record)
        elif run in transaction.state.work.runs or run in reported:
            continue
        else:
            reported.add(run)
            usage = _of_run(transaction, run)
        if _is_known(usage):
            _report(transaction, record, run, usage)


def _is_known(usage: Usage) -> bool:
    """Whether a provider has counted it, or it has a price: a report without numbers says nothing."""
    is_counted = usage.tokens > 0 and not usage.estimated
    return is_counted or usage.cost_usd is not None


def _of_run(transaction: Transaction, run: RunId) -> Usage:
    """What a run that is over has cost: before this decision, and in it."""
    earlier = transaction.before.work.runs.get(run)
    usage = NO_USAGE if earlier is None else _sum(earlier.models.values())
    return usage + _sum(cost_of(record) for record in _of(transaction, run))


def _of(transaction: Transaction, run: RunId) -> list[r.Record]:
    return [record for record in transaction.records if getattr(record, "run", None) == run]


def _report(transaction: Transaction, record: r.Record, run: RunId | None, usage: Usage) -> None:
    policy = transaction.policy
    speaker = policy.roster.get(spender_of(record), policy.project)
    owner = policy.cost_owners.get(speaker.pubkey)
    if owner is None:
        return
    records = [record] if run is None else _of(transaction, run)
    earlier = transaction.before.work.runs.get(run) if run is not None else None
    models = [model for model in map(model_of, records) if model]
    outcome = next((ended.outcome for ended in records if isinstance(ended, r.RunEnded)), "")
    transaction.add(
        r.CostReported,
        speaker=speaker.pubkey,
        name=speaker.name,
        cost=TurnCost(
            owner=owner,
            session=str(transaction.state.id),
            turn=str(record.seq) if run is None else run,
            usage=usage,
            model=models[-1] if models else earlier.model if earlier is not None else "",
            ended=transaction.now,
            outcome=outcome,
        ),
    )


def _sum(usages: Iterable[Usage]) -> Usage:
    return sum(usages, NO_USAGE)
