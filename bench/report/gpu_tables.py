"""Markdown tables from a measurement of a GPU, for the markers that begin with gpu_."""

from report import figures
from report.assess import rows_of
from report.gpu_groups import JOBS
from report.gpu_targets import TARGETS
from report.tables import UNITS, bound, machine_words, number, of_group, spread
from report.tables import table, targets_table, verdict_words

KERNEL_GROUPS = ("products", "lora", "lora_backward", "rows", "attention", "head")
JOB_FIGURES = ("tokens_per_s", "peak_pool_gib", "first_step_s")


def outcomes(measurement):
    """{work: [Row]}: one row per workload for each target."""
    found = figures.collect(measurement)
    by_work = {}
    for target in TARGETS:
        for row in rows_of(target, target.must, found):
            by_work.setdefault(row.work, []).append(row)
    return by_work


def asked(row):
    """1.01x (0.98x, goal 1.03x): meets must; or 1.04 of the product (1.05, goal 1.02): meets
    must."""
    target = row.target
    words = [bound(target, target.must)] if target.must is not None else []
    words += [f"goal {bound(target, target.goal)}"] if target.goal is not None else []
    if target.peers is not None:
        got = "" if row.value is None else f"{row.value:.2f}x "
    else:
        got = "" if row.value is None else f"{number(row.value)} {UNITS[target.figure]} "
    return f"{got}({', '.join(words)}): {verdict_words(row)}"


def best_of(by_contender, name):
    """A contender's time, or a note that it was not measured."""
    own = by_contender.get(name, {}).get("us")
    return spread(own) if own else "not measured"


def peer_names(measurement, found):
    """The peers that ran any of the workloads, were skipped or failed."""
    looked_for = [item["contender"] for item in measurement["skipped"] + measurement["failed"]]
    did = [name for own in found.values() for name in own]
    return sorted({name for name in did + looked_for if name.startswith("PyTorch")
                   and (name in did or not did_any(did))})


def did_any(names):
    return any(name.startswith("PyTorch") for name in names)


def kernel_table(measurement, group):
    found = of_group(measurement, group)
    if not found:
        return "Not measured.\n"
    peers, by_work = peer_names(measurement, found), outcomes(measurement)
    lines = []
    for work, by_contender in found.items():
        own = by_contender.get(figures.OURS, {})
        share = own.get("percent_of_roofline")
        lines.append([work, best_of(by_contender, figures.OURS),
                      number(share.median) if share else "",
                      *(best_of(by_contender, name) for name in peers),
                      "; ".join(asked(row) for row in by_work.get(work, ()))])
    return table(["workload, us", "clora", "% of roofline", *peers, "target"], lines)


def jobs_table(measurement):
    found = {}
    for model in JOBS:
        short = model.rpartition("-")[2]
        for group in (f"training_{short}", f"cold_{short}"):
            found.update(of_group(measurement, group))
    lines = []
    for work, by_contender in found.items():
        own = by_contender.get(figures.OURS, {})
        lines.append([work, *(spread(own.get(name)) for name in JOB_FIGURES)])
    return table(["job", *(UNITS[name] for name in JOB_FIGURES)], lines) if lines \
        else "Not measured.\n"


def peaks_words(measurement):
    peaks = measurement["machine"].get("device", {}).get("peaks")
    if not peaks:
        return "Its peaks are not known.\n"
    matrix = peaks.get("matrix_flops_per_s", 0)
    matrix_words = f", {number(matrix * 1e-12)} TFLOP/s of bf16 products" if matrix else ""
    return (f"Measured peaks: {number(peaks['copy_bytes_per_s'] * 1e-9)} GB/s copied, "
            f"{number(peaks['read_bytes_per_s'] * 1e-9)} GB/s read, "
            f"{number(peaks['f32_flops_per_s'] * 1e-12)} TFLOP/s f32{matrix_words}, "
            f"{number(peaks['launch_seconds'] * 1e6)} us per launch.\n")


def profiles_text(measurement):
    made = [f"{work}, one step:\n\n```\n{text}\n```\n"
            for work, text in measurement.get("profiles", {}).items()]
    return "\n".join(made) or "Not measured.\n"


def all_tables(measurement):
    return {"gpu_machine": machine_words(measurement) + "\n" + peaks_words(measurement),
            "gpu_targets": targets_table(measurement, TARGETS),
            "gpu_training": jobs_table(measurement), "gpu_profiles": profiles_text(measurement),
            **{f"gpu_{group}": kernel_table(measurement, group) for group in KERNEL_GROUPS}}
