"""SVG charts of a measurement: bars of clora and its peers, and lines of growth. Plain SVG without
scripts and links; the colours follow the reader's light or dark mode."""

from html import escape

from report import figures
from report.growth import TITLES as GROWTH_TITLES
from report.tables import GROUP_FIGURES, MANY_WORKS, UNITS, compared, number, of_group, spread

# {class: (property, light, dark)}; written out twice, because some viewers lack CSS variables.
COLOURS = {"paper": ("fill", "#ffffff", "#0d1117"), "ink": ("fill", "#1f2328", "#f0f6fc"),
           "faint": ("fill", "#59636e", "#9198a1"), "ours": ("fill", "#0a69da", "#4493f8"),
           "auto": ("fill", "#1a7f37", "#3fb950"), "peer": ("fill", "#9aa4af", "#656c76"),
           "axis": ("stroke", "#d1d9e0", "#3d444d"), "whisker": ("stroke", "#1f2328", "#f0f6fc"),
           "time": ("stroke", "#0a69da", "#4493f8"), "memory": ("stroke", "#1a7f37", "#3fb950")}


def colours(column):
    return " ".join(f".{name} {{ {values[0]}: {values[column]}; }}"
                    for name, values in COLOURS.items())


STYLE = f"""<style>
  text {{ font: 12px system-ui, sans-serif; }}
  .title {{ font-size: 15px; font-weight: 600; }} .work {{ font-weight: 600; }}
  .time, .memory {{ fill: none; stroke-width: 2; }} .memory {{ stroke-dasharray: 5 3; }}
  {colours(1)}
  @media (prefers-color-scheme: dark) {{ {colours(2)} }}
</style>"""

WIDTH, LEFT, BAR_WIDTH, LINE = 860, 215, 430, 18


def document(width, height, label, parts):
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img" aria-label="{escape(label)}">')
    paper = f'<rect class="paper" width="{width}" height="{height}"/>'
    return "\n".join([head, STYLE, paper, *parts, "</svg>\n"])


def text(x, y, words, kind="ink", anchor="start"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">'
            f'{escape(words)}</text>')


def line(x1, y1, x2, y2, kind="axis"):
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def kind_of(contender):
    return {"clora": "ours", "clora auto": "auto"}.get(contender, "peer")


def speed(figure, value):
    """The value that the length of a bar is proportional to."""
    return value if figure in figures.RATES else 1 / value


def bar(y, contender, summary, figure, best):
    """A contender's bar with its median, and a whisker from the worst round to the best."""
    def length(value):
        return BAR_WIDTH * min(speed(figure, value) / best, 1)
    middle = y + LINE / 2
    ends = sorted((length(summary.least), length(summary.most)))
    return [text(LEFT - 8, middle + 4, contender, anchor="end"),
            f'<rect class="{kind_of(contender)}" x="{LEFT}" y="{y + 2}" '
            f'width="{max(length(summary.median), 1):.1f}" height="{LINE - 5}" rx="2"/>',
            line(LEFT + ends[0], middle, LEFT + ends[1], middle, "whisker"),
            text(LEFT + ends[1] + 8, middle + 4, spread(summary), "faint")]


def family(contender):
    """The family of a contender: PyTorch's modes form one for f32 and one for bf16; each form of
    clora is a family."""
    if figures.is_ours(contender):
        return contender
    return contender.split()[0], contender.endswith(" bf16")


def fastest_first(by_contender, figure, best_of_family):
    """[(contender, Summary)]; on request only the best of each family."""
    known = [(name, own[figure]) for name, own in by_contender.items() if figure in own]
    known.sort(key=lambda item: -speed(figure, item[1].median))
    if not best_of_family:
        return known
    best = {}
    for name, summary in known:
        best.setdefault(family(name), (name, summary))
    return list(best.values())


def block(y, work, known, figure):
    """The bars of one workload: (parts, the next y)."""
    best = max(speed(figure, value) for _, summary in known
               for value in (summary.least, summary.most))
    parts = [text(LEFT, y + 13, work, "ink work")]
    y += LINE
    for contender, summary in known:
        parts += bar(y, contender, summary, figure, best)
        y += LINE
    return parts, y + 10


def bars(title, found, figure):
    """Bars by workload, with the figures after them; longer is faster. With many workloads, only
    the best form of each peer is shown."""
    parts = [text(16, 26, title, "ink title"),
             text(16, 44, f"{UNITS[figure]}, median (minimum to maximum); longer is faster", "faint")]
    y = 58
    for work, by_contender in found.items():
        known = fastest_first(by_contender, figure, len(found) > MANY_WORKS)
        if known:
            own_parts, y = block(y, work, known, figure)
            parts += own_parts
    return document(WIDTH, y + 6, title, parts)


def panel(x, axis, points):
    """Time and memory over one axis, both starting at zero."""
    width, height, top = 220, 190, 70
    bottom, max_x = top + height, max(point["x"] for point in points)
    parts = [line(x, top, x, bottom), line(x, bottom, x + width, bottom),
             text(x + width / 2, bottom + 34, GROWTH_TITLES[axis], anchor="middle"),
             text(x, bottom + 16, "0", "faint"),
             text(x + width, bottom + 16, str(max_x), "faint", "end")]
    for figure, kind, row in (("step_s", "time", 0), ("peak_rss_gib", "memory", 1)):
        most = max(point[figure] for point in points)
        dots = [(x + width * point["x"] / max_x, bottom - height * point[figure] / (1.08 * most))
                for point in points]
        path = " ".join(f"{dot_x:.1f},{dot_y:.1f}" for dot_x, dot_y in dots)
        parts.append(f'<polyline class="{kind}" points="{path}"/>')
        parts += [f'<circle class="{"ours" if row == 0 else "auto"}" cx="{dot_x:.1f}" '
                  f'cy="{dot_y:.1f}" r="3"/>' for dot_x, dot_y in dots]
        words = f"to {number(most)} {UNITS[figure]}"
        parts.append(text(x + 4, top - 18 + 14 * row, words, "faint"))
    return parts


def growth(found):
    parts = [text(16, 24, "Growth of a training step: time (solid) and memory (dashed), from 0",
                  "ink title")]
    for i, (axis, points) in enumerate(found.items()):
        parts += panel(40 + 275 * i, axis, points)
    return document(WIDTH, 310, "Growth of a training step", parts)


def all_charts(measurement, titles):
    """{name: SVG} of the growth and of each group with something to draw."""
    drawn = {}
    for group, title in titles.items():
        found = compared(of_group(measurement, group))
        figure = GROUP_FIGURES.get(group, ("us",))[0]
        measured = any(figure in own for by in found.values() for own in by.values())
        if measured and group != "adapter":  # a fraction of a product's time is not a speed
            drawn[group] = bars(title, found, figure)
    if measurement["growth"]:
        drawn["growth"] = growth(measurement["growth"])
    return drawn
