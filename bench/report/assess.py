"""Compares a measurement with the targets: each target yields a Row with a verdict. Workloads
without a measurement are marked."""

from dataclasses import dataclass, replace

from report import figures
from report.targets import LAYER_COUNTS, TARGETS


@dataclass(frozen=True)
class Row:
    """The result of a target; for several workloads, the worst. A Summary is None if not
    measured."""
    target: object
    must: float | None
    work: str = ""
    ours: figures.Summary | None = None
    peer_name: str = ""
    peer: figures.Summary | None = None
    value: float | None = None  # the ratio, or clora's own figure for an absolute target
    verdict: str = "not measured"
    unmeasured: tuple = ()      # workloads of the target without a measurement


def together(found, workloads):
    """Sums the times of the workloads per round, weighted by their number in a layer: {contender:
    {"us": Summary}} for the contenders that ran all of them."""
    shared = set.intersection(*({name for name, own in found.get(work, {}).items() if "us" in own}
                                for work in workloads))
    sums = {}
    for contender in shared:
        columns = [[LAYER_COUNTS.get(work, 1) * us for us in found[work][contender]["us"]]
                   for work in workloads]
        sums[contender] = {"us": figures.summarise([sum(row) for row in zip(*columns)])}
    return sums


def ours_of(target, by_contender):
    """clora's figures; for auto precision those of f32 if nothing else was measured."""
    own = by_contender.get(target.ours())
    return own if own is not None else by_contender.get(figures.OURS)


def against_peers(target, must, work, by_contender):
    own = (ours_of(target, by_contender) or {}).get(target.figure)
    best = figures.best_peer(by_contender, target.figure, target.allows)
    if own is None or best is None:
        missing = "not measured" if own is None else "no peer measured"
        return Row(target, must, work, own, verdict=missing)
    ratio = figures.speed_ratio(target.figure, own.median, best[1].median)
    return Row(target, must, work, own, *best, ratio, figures.verdict(ratio, must, target.goal))


def absolute(target, must, work, by_contender):
    own = (ours_of(target, by_contender) or {}).get(target.figure)
    if own is None:
        return Row(target, must, work)
    word = figures.verdict(own.median, must, target.goal, target.figure in figures.RATES)
    return Row(target, must, work, own, value=own.median, verdict=word)


def rows_of(target, must, found):
    """One Row per workload of the target, or one Row for all of them together."""
    one = absolute if target.peers is None else against_peers
    if target.together:
        return [one(target, must, "together", together(found, target.workloads))]
    summed = {work: {contender: {name: figures.summarise(values) for name, values in own.items()}
                     for contender, own in found.get(work, {}).items()}
              for work in target.workloads}
    return [one(target, must, work, by_contender) for work, by_contender in summed.items()]


def worst(rows):
    """The decisive row, with the names of the workloads that were not measured."""
    measured = [row for row in rows if row.value is not None]
    if not measured:
        return rows[0]
    larger = measured[0].target.peers is not None or measured[0].target.figure in figures.RATES
    decides = (min if larger else max)(measured, key=lambda row: row.value)
    return replace(decides, unmeasured=tuple(row.work for row in rows if row.value is None))


def assess(measurement, targets=TARGETS):
    """One Row per target, in the targets' order."""
    found = figures.collect(measurement)
    flags = measurement["machine"].get("flags", [])
    return [worst(rows_of(target, target.must_on(flags), found)) for target in targets]
