// Draws the latency of the last requests, and again whenever the server tells of new ones.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const place = document.getElementById("latency");
  const empty = document.getElementById("latency-empty");
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line") } };
  const options = {
    width: place.clientWidth,
    height: 260,
    scales: { x: { range: () => [Date.now() / 1000 - 600, Date.now() / 1000] }, y: { range: (_plot, _low, high) => [0, Math.max(1, high * 1.1)] } },
    axes: [axis, { ...axis, size: 60 }],
    series: [
      { label: place.dataset.time },
      { label: place.dataset.first, stroke: colour("--ok"), points: { show: true, size: 5 } },
      { label: place.dataset.total, stroke: colour("--accent"), points: { show: true, size: 5 } },
    ],
  };
  const plot = new uPlot(options, [[], [], []], place);
  new ResizeObserver(() => plot.setSize({ width: place.clientWidth, height: 260 })).observe(place);
  const events = new EventSource(place.dataset.events);
  events.addEventListener("latency", (event) => {
    const rows = JSON.parse(event.data);
    empty.hidden = rows.length > 0;
    plot.setData([rows.map((r) => r.at), rows.map((r) => r.first_ms), rows.map((r) => r.total_ms)]);
  });
});
