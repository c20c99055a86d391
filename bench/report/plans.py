"""The differences between tools/bench_report and tools/gpu_bench."""

from collections.abc import Callable
from dataclasses import dataclass

from report import gpu_groups, gpu_tables, groups, tables
from report.gpu_targets import TARGETS as GPU_TARGETS
from report.targets import TARGETS


@dataclass(frozen=True)
class Plan:
    name: str            # the measurement's "plan"; a measurement without one is of the first plan
    device: str          # for CLORA_DEVICE, unless the command line names one; empty: unchanged
    rounds: int
    quick_rounds: int
    groups: Callable     # () -> the Groups
    targets: tuple
    tables: Callable     # of the measurement: {name: Markdown}
    has_growth: bool = False
    has_charts: bool = False


CPU = Plan("cpu", "", 5, 2, groups.all_groups, TARGETS, tables.all_tables, has_growth=True,
           has_charts=True)
GPU = Plan("gpu", "gpu", 2, 1, gpu_groups.all_groups, GPU_TARGETS, gpu_tables.all_tables)
ALL = (CPU, GPU)


def table_names(plan):
    """Whether a marked table of a document belongs to the plan: those of a GPU begin with gpu_."""
    return (lambda name: name.startswith("gpu_")) if plan.name == "gpu" else (
        lambda name: not name.startswith("gpu_"))
