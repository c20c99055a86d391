"""Converts clora_bench's JSON to figures by workload.

Its names are op/form/type/shape[/rN][/word]...; a workload is op/shape[/rN]. If there is a row
whose buffers may stay in the caches (warm), that row is compared with the peers, which also use a
single set of buffers; the other row becomes the workload's /cold.
"""

import json
import re
import statistics
from dataclasses import dataclass

# The suffixes that Google Benchmark adds for its timing options.
ADDED = re.compile(r"(/(iterations|min_time|repeats):[^/]+)*(/(manual|real)_time)?$")
# The forms that earlier versions of clora_bench wrote.
EARLIER_FORMS = {"composed": "unfused"}
LIBRARIES = ("eigen", "clblast", "onednn")


@dataclass(frozen=True)
class Name:
    op: str
    form: str
    type: str
    work: str
    words: frozenset

    @property
    def product_of_bf16(self):
        return "bf16" in self.words


def parse_name(text):
    """None for names of another form (launch/bare)."""
    parts = ADDED.sub("", text).split("/")
    if len(parts) < 4:
        return None
    op, form, kind, shape, *rest = parts
    form = EARLIER_FORMS.get(form, form)
    rank = [rest.pop(0)] if rest and re.fullmatch(r"r\d+", rest[0]) else []
    return Name(op, form, kind, "/".join([op, shape, *rank]), frozenset(rest))


def figures_of(row):
    """The figures of a row under the names used in the report."""
    found = {"us": row.get("median_us"), "percent_of_roofline": row.get("percent_of_roofline"),
             "gflops": row.get("gflops"), "gbps": row.get("gbps"),
             "tokens_per_s": row.get("tokens_per_s"), "first_step_s": row.get("first_step_s"),
             "scratch_mib": row.get("scratch_mib")}
    if "peak_mib" in row:
        found["peak_pool_gib"] = row["peak_mib"] / 1024
    return {key: value for key, value in found.items() if value is not None}


def generation_figures(name, row):
    """The rates of the prompt and of the reply become separate workloads, named by the prompt's
    length."""
    prompt = name.work.split("/")[1].split("x")[0]
    return {f"prefill/{prompt}": {"tokens_per_s": row["prompt_tokens_per_s"]},
            f"decode/{prompt}": {"tokens_per_s": row["decode_tokens_per_s"]}}


def rows(text):
    """(Name, row) of each timed row; a row that failed its check has no times."""
    for row in json.loads(text)["benchmarks"]:
        name = parse_name(row["name"])
        if name is not None and row.get("run_type", "iteration") == "iteration" \
                and not row.get("error_occurred"):
            yield name, row


def errors(text):
    """The names and messages of rows that failed their check."""
    return [f"{row['name']}: {row.get('error_message', '')}"
            for row in json.loads(text)["benchmarks"] if row.get("error_occurred")]


def own_figures(text, bf16):
    """{work: figures} of the fused rows, with or without bf16 products."""
    warm, cold = {}, {}
    for name, row in rows(text):
        if name.form != "fused" or name.product_of_bf16 != bf16:
            continue
        if name.op == "generation":
            warm.update(generation_figures(name, row))
        else:
            (warm if "warm" in name.words else cold)[name.work] = figures_of(row)
    for work, figures in cold.items():
        if work in warm:
            warm[f"{work}/cold"] = figures
        else:
            warm[work] = figures
    return warm


def library_figures(text, library):
    """{work: figures} of a library's rows."""
    return {name.work: figures_of(row) for name, row in rows(text)
            if name.form == "library" and library in name.words}


def adapter_figures(text):
    """The time that the adapter adds to a product, fused and unfused: {"adapter/SHAPE/rN": ...}
    with added_percent of the plain product, and of_unfused, the fused addition as a fraction of
    the unfused one. From cold rows in f32 arithmetic; the median of the repetitions."""
    samples = {}
    for name, row in rows(text):
        if "median_us" in row and not name.words & {"warm", "bf16"}:
            key = (name.op, name.form, name.work.split("/", 1)[1])
            samples.setdefault(key, []).append(row["median_us"])
    times = {key: statistics.median(values) for key, values in samples.items()}
    found = {}
    for (op, form, shape), fused in times.items():
        bare = times.get(("gemm", "fused", shape.split("/")[0]))
        unfused = times.get(("lora_linear", "unfused", shape))
        if (op, form) != ("lora_linear", "fused") or bare is None or unfused is None:
            continue
        added = max(unfused - bare, 0.001 * bare)  # positive despite noise
        found[f"adapter/{shape}"] = {"added_percent": 100 * (fused - bare) / bare,
                                     "of_unfused": max(fused - bare, 0) / added}
    return found
