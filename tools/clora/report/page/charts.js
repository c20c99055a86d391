"use strict";
// Shows the values of all charts at the step under the pointer, or by arrow keys in a chart.
const LEFT = 50, RIGHT = 390, TOP = 8, FLOOR = 186;
const charts = [...document.querySelectorAll("figure.chart")].map((figure) => ({
  figure, last: Number(figure.dataset.last), bytes: figure.dataset.bytes === "1",
  labels: [...figure.querySelectorAll(".legend > span")].map((item) => item.firstChild.nextSibling.data.trim()),
  lines: figure.dataset.lines.split(";").map((line) => {
    const [colour, points] = line.split("|");
    return {colour, points: points.split(",").map((point) => point.split(":").map(Number))};
  }),
}));
const steps = (chart) => [...new Set(chart.lines.flatMap((line) => line.points.map((point) => point[0])))]
  .sort((a, b) => a - b);
const nearest = (points, step) => points.reduce((best, point) =>
  Math.abs(point[0] - step) < Math.abs(best[0] - step) ? point : best);
function text(chart, value) {
  if (!chart.bytes) return Math.abs(value) >= 1e4 ? Math.round(value).toLocaleString("en") : String(+value.toPrecision(4));
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; value >= 1024 && unit + 1 < units.length; ++unit) value /= 1024;
  return value.toFixed(unit ? 1 : 0) + " " + units[unit];
}
let current = null;
function show(step) {
  current = step;
  for (const chart of charts) {
    const svg = chart.figure.querySelector("svg");
    svg.querySelector(".cursor")?.remove();
    const out = chart.figure.querySelector(".readout");
    out.replaceChildren();
    if (step === null || step > chart.last) continue;
    const x = LEFT + step / chart.last * (RIGHT - LEFT);
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    for (const [name, value] of [["class", "cursor"], ["x1", x], ["x2", x], ["y1", TOP], ["y2", FLOOR]]) line.setAttribute(name, value);
    svg.append(line);
    out.append("step " + step.toLocaleString("en") + ": ");
    chart.lines.forEach((each, i) => {
      const point = nearest(each.points, step), item = document.createElement("span");
      item.className = "s" + each.colour;
      item.textContent = (chart.lines.length > 1 ? chart.labels[i] + " " : "") + text(chart, point[1]) +
        (point[0] === step ? "" : " (step " + point[0] + ")");
      out.append(item);
    });
  }
}
for (const chart of charts) {
  const svg = chart.figure.querySelector("svg"), all = steps(chart);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const share = ((event.clientX - box.left) / box.width * 400 - LEFT) / (RIGHT - LEFT);
    show(nearest(all.map((step) => [step]), Math.min(Math.max(share, 0), 1) * chart.last)[0]);
  });
  svg.addEventListener("pointerleave", () => show(null));
  chart.figure.addEventListener("keydown", (event) => {
    const at = current === null ? -1 : all.indexOf(nearest(all.map((step) => [step]), current)[0]);
    const next = {ArrowRight: Math.min(at + 1, all.length - 1), ArrowLeft: Math.max(at - 1, 0),
      Home: 0, End: all.length - 1}[event.key];
    if (next !== undefined) { event.preventDefault(); show(all[next]); }
    if (event.key === "Escape") show(null);
  });
}
