"""The statistics of a measurement: medians, ratios and verdicts from the figures of many rounds.

A measurement is written by rounds.py: its "runs" contain, for every round and contender, figures by
workload: {"gemm/64x512x512": {"us": 211.0}}. The name of a figure ends with its unit and determines
whether larger is better.
"""

import statistics
from dataclasses import dataclass

OURS = "clora"
# Figures for which larger is better; for all others (times, sizes, percentages) smaller is better.
RATES = {"tokens_per_s", "gflops", "gbps", "percent_of_roofline"}


# The names in measurements of earlier versions.
EARLIER = {"percent_of_ceiling": "percent_of_roofline", "of_composed": "of_unfused"}


def with_current_names(measurement):
    """A measurement of an earlier version under the names of this one."""
    machine = dict(measurement["machine"])
    if "ceilings" in machine.get("device", {}):
        device = dict(machine["device"])
        machine["device"] = {"peaks": device.pop("ceilings"), **device}
    runs = [{**run, "figures": {work: {EARLIER.get(name, name): value
                                       for name, value in figures.items()}
                                for work, figures in run["figures"].items()}}
            for run in measurement["runs"]]
    return {**measurement, "machine": machine, "runs": runs}


@dataclass(frozen=True)
class Summary:
    """The median, least and most of the rounds."""
    median: float
    least: float
    most: float
    rounds: int

    @property
    def spread(self):
        """(most - least) / median."""
        return (self.most - self.least) / self.median if self.median else 0.0


def summarise(values):
    """REQUIRES at least one value."""
    return Summary(statistics.median(values), min(values), max(values), len(values))


def collect(measurement):
    """{work: {contender: {figure: [value of each round]}}}."""
    found = {}
    for run in measurement["runs"]:
        for work, figures in run["figures"].items():
            own = found.setdefault(work, {}).setdefault(run["contender"], {})
            for name, value in figures.items():
                own.setdefault(name, []).append(value)
    return found


def summaries(measurement):
    """{work: {contender: {figure: Summary}}}."""
    return {work: {contender: {name: summarise(values) for name, values in own.items()}
                   for contender, own in by_contender.items()}
            for work, by_contender in collect(measurement).items()}


def off_line(points):
    """The largest distance of the points (x, y) from the line of best fit (least squares), as a
    fraction of the largest y; 0 for fewer than three points."""
    if len(points) < 3:
        return 0.0
    slope, start = statistics.linear_regression(*zip(*points))
    return max(abs(y - start - slope * x) for x, y in points) / max(y for _, y in points)


def is_ours(contender):
    return contender == OURS or contender.startswith(OURS + " ")


def better(figure, first, second):
    """Whether first is better than second."""
    return first > second if figure in RATES else first < second


def speed_ratio(figure, ours, peer):
    """The factor by which clora is better: 2 is twice the rate, half the time or half the
    memory."""
    if figure in RATES:
        return ours / peer if peer else float("inf")
    return peer / ours if ours else float("inf")


def best_peer(by_contender, figure, allowed=lambda contender: True):
    """(contender, Summary) of the best median among the peers; None without peers."""
    best = None
    for contender, own in sorted(by_contender.items()):
        if is_ours(contender) or figure not in own or not allowed(contender):
            continue
        if best is None or better(figure, own[figure].median, best[1].median):
            best = (contender, own[figure])
    return best


def verdict(value, must, goal, larger=True):
    """The verdict on a value in one word; must and goal may be None, which skips that bound."""
    def reaches(bound):
        return bound is not None and (value >= bound if larger else value <= bound)
    if reaches(goal):
        return "meets goal"
    if reaches(must):
        return "meets must"
    return "below goal" if must is None else "MISSES"
