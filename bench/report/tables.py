"""Markdown tables from a measurement, and their insertion between the markers of a document:

  <!-- table: NAME -->
  this text is replaced
  <!-- end -->
"""

import re

from report import figures
from report.assess import assess
from report.growth import TITLES as GROWTH_TITLES
from report.targets import TARGETS

MARKED = re.compile(r"(<!-- table: ([a-z0-9_]+) -->\n)(.*?)(<!-- end -->)", re.S)
UNITS = {"us": "us", "tokens_per_s": "tokens/s", "peak_rss_gib": "GiB resident",
         "peak_pool_gib": "GiB on the device", "first_step_s": "s, first step",
         "first_token_s": "s to the first token", "seconds": "s", "step_s": "s per step",
         "added_percent": "% added", "of_unfused": "of unfused", "of_base": "of the product",
         "scratch_mib": "MiB of scratch", "percent_of_roofline": "% of roofline"}
# The figures of a group's table; the first one determines the best peer.
GROUP_FIGURES = {"training": ("tokens_per_s", "peak_rss_gib", "first_step_s"),
                 "training_small": ("tokens_per_s", "peak_rss_gib"),
                 "generation": ("tokens_per_s",), "cold": ("first_step_s", "peak_rss_gib"),
                 "memory": ("peak_rss_gib", "peak_pool_gib"),
                 "start": ("first_token_s",), "demo": ("seconds",),
                 "adapter": ("added_percent", "of_unfused")}
GROUPS = ("products", "lora", "adapter", "rows", "lora_step", "training", "training_small",
          "generation", "cold", "memory", "start", "demo")
MANY_WORKS = 4  # above this, one line per workload, with only the best peer


def number(value):
    """Three digits, four for large numbers: 0.052, 1.50, 211, 1045."""
    digits = next((digits for least, digits in ((99.95, 0), (9.995, 1), (0.9995, 2))
                   if abs(value) >= least), 3)
    return f"{value:.{digits}f}"


def spread(summary):
    """Median (minimum to maximum)."""
    if summary is None:
        return ""
    if summary.rounds == 1:
        return number(summary.median)
    return f"{number(summary.median)} ({number(summary.least)} to {number(summary.most)})"


def table(head, lines):
    rows = [head, ["---"] * len(head), *lines]
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def bound(target, value):
    if value is None:
        return ""
    return f"{value:g}x" if target.peers is not None else f"{value:g}"


def verdict_words(row):
    words = f"**{row.verdict}**" if row.verdict == "MISSES" else row.verdict
    if row.unmeasured and row.value is not None:
        words += f" ({len(row.unmeasured)} of {len(row.target.workloads)} not measured)"
    return words


def targets_table(measurement, targets=TARGETS):
    lines = []
    for row in assess(measurement, targets):
        target = row.target
        unit = UNITS.get(target.figure, "") if target.peers is not None else ""
        peer = f"{spread(row.peer)} {row.peer_name}" if row.peer else ""
        value = "" if row.value is None or target.peers is None else f"{row.value:.2f}x"
        ours = f"{spread(row.ours)} {unit}".strip() if row.ours else ""
        work = row.work if len(target.workloads) > 1 else ""
        lines.append([target.title, work, ours, peer, value,
                      bound(target, row.must), bound(target, target.goal), verdict_words(row)])
    return table(["workload", "worst case", "clora", "best peer", "ratio", "must", "goal",
                  "verdict"], lines)


def of_group(measurement, group):
    """{work: {contender: {figure: Summary}}} of one group's runs."""
    runs = [run for run in measurement["runs"] if run["group"] == group]
    return figures.summaries({"runs": runs})


def contenders_table(found, names):
    """A line for each workload and contender, the best first."""
    lines = []
    for work, by_contender in found.items():
        known = [(name, own) for name, own in by_contender.items() if names[0] in own]
        known.sort(key=lambda item: item[1][names[0]].median, reverse=names[0] in figures.RATES)
        lines += [[work, name, *(spread(own.get(figure)) for figure in names)]
                  for name, own in known]
    return table(["workload", "program", *(UNITS[figure] for figure in names)], lines)


def named_spread(best):
    return f"{spread(best[1])} {best[0]}" if best else ""


def best_table(found, figure):
    """A line for each workload, with the best peer in f32 and in bf16."""
    lines = []
    for work, by_contender in found.items():
        def own(name, by_contender=by_contender):
            return spread(by_contender.get(name, {}).get(figure))
        plain = figures.best_peer(by_contender, figure, lambda name: not name.endswith(" bf16"))
        bf16 = figures.best_peer(by_contender, figure, lambda name: name.endswith(" bf16"))
        lines.append([work, own("clora"), own("clora auto"), named_spread(plain),
                      named_spread(bf16)])
    return table([f"workload, {UNITS[figure]}", "clora f32", "clora auto", "best peer, f32",
                  "best peer, bf16"], lines)


def compared(found):
    """The workloads that are compared with peers."""
    return {work: own for work, own in found.items() if not work.endswith("/cold")}


def group_table(measurement, group):
    found = compared(of_group(measurement, group))
    names = GROUP_FIGURES.get(group, ("us",))
    if not found:
        return "Not measured.\n"
    if len(found) > MANY_WORKS and len(names) == 1:
        return best_table(found, names[0])
    return contenders_table(found, names)


def straightness(axis, points):
    """tokens 1.2 % (time), 0.3 % (memory)."""
    off = {figure: 100 * figures.off_line([(point["x"], point[figure]) for point in points])
           for figure in ("step_s", "peak_rss_gib")}
    return f"{axis} {off['step_s']:.1f} % (time), {off['peak_rss_gib']:.1f} % (memory)"


def growth_table(measurement):
    lines = [[GROWTH_TITLES[axis], str(point["x"]), number(point["step_s"]),
              number(point["peak_rss_gib"]), number(point["peak_pool_gib"])]
             for axis, points in measurement["growth"].items() for point in points]
    if not lines:
        return "Not measured.\n"
    straight = "; ".join(straightness(axis, points)
                         for axis, points in measurement["growth"].items())
    return (table(["with", "", "s per step", "GiB resident", "GiB on the device"], lines) +
            f"\nFarthest from a straight line, of the largest: {straight}.\n")


def commit_words(measurement):
    """clora abc; if groups were measured at different commits, the commit of each."""
    by_time = {}
    for group, noted in measurement["groups"].items():
        by_time.setdefault((noted["commit"], noted["date"]), []).append(group)
    if len(by_time) < 2:
        return f"clora {measurement['machine']['commit']}"
    return "; ".join(f"clora {commit} of {date}: {', '.join(groups)}"
                     for (commit, date), groups in by_time.items())


def machine_words(measurement):
    m = measurement["machine"]
    device = m.get("device", {})
    named = f"{device['name']}, " if measurement.get("plan") == "gpu" else ""
    peers = ", ".join(f"{name} {version}" for name, version in sorted(measurement["peers"].items()))
    quick = " A quick run: its figures mean little." if measurement["quick"] else ""
    left = [f"{item['contender']} ({item['why']}; `{item['install']}`)"
            for item in measurement["skipped"]]
    left += [f"{item['contender']} in {item['group']} ({item['why']})"
             for item in measurement["failed"]]
    rounds = "One round" if measurement["rounds"] == 1 else f"{measurement['rounds']} rounds"
    absent = f" Not measured: {'; '.join(left)}." if left else ""
    return (f"{measurement['date']}, {named}{m['cpu']} (family/model {m['family']}; "
            f"{', '.join(m['flags'])}), {m['cores']} cores, {m['memory_gib']} GiB, "
            f"{m['system']}, Linux {m['kernel']}; OpenCL: {device.get('platform', 'unknown')}, "
            f"driver {device.get('driver', 'unknown')}; {commit_words(measurement)}; "
            f"{peers or 'no peers'}. {rounds} in alternation: median (minimum to maximum)."
            f"{quick}{absent}\n")


def all_tables(measurement):
    """{name: Markdown} of every table that a document may use."""
    return {"machine": machine_words(measurement), "targets": targets_table(measurement),
            "growth": growth_table(measurement),
            **{group: group_table(measurement, group) for group in GROUPS}}


def splice(document, tables, is_ours=lambda name: True):
    """The document with its marked tables replaced if is_ours(name). Raises KeyError for an unknown
    name among them."""
    if document.count("<!-- table:") != len(MARKED.findall(document)):
        raise ValueError("a <!-- table: NAME --> has no <!-- end --> after it")

    def replaced(found):
        return found[1] + (tables[found[2]] if is_ours(found[2]) else found[3]) + found[4]
    return MARKED.sub(replaced, document)
