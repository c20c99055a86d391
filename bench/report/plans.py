"""The differences between tools/bench_report, with and without --without-avx512, and
tools/gpu_bench."""

from collections.abc import Callable
from dataclasses import dataclass

from report import avx2, gpu_groups, gpu_tables, groups, tables
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
    # (setup, contender's name) -> variables for its process
    environment: Callable = lambda setup, contender: {}
    hides_flag: Callable = lambda flag: False  # whether that environment hides a CPU flag


CPU = Plan("cpu", "", 5, 2, groups.all_groups, TARGETS, tables.all_tables, has_growth=True,
           has_charts=True)
GPU = Plan("gpu", "gpu", 2, 1, gpu_groups.all_groups, GPU_TARGETS, gpu_tables.all_tables)
AVX2 = Plan("avx2", "cpu", 5, 2, avx2.all_groups, avx2.TARGETS, avx2.all_tables,
            environment=avx2.environment, hides_flag=avx2.is_hidden)
ALL = (CPU, GPU, AVX2)


def table_names(plan):
    """Whether a marked table of a document belongs to the plan: their names begin with the plan's,
    except for those of the first plan."""
    others = tuple(f"{other.name}_" for other in ALL if other is not CPU)
    if plan is CPU:
        return lambda name: not name.startswith(others)
    return lambda name: name.startswith(f"{plan.name}_")
