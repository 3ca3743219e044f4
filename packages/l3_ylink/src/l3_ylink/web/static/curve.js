"use strict";
// Draws the loss curve of a training run; the page names where its points are.
document.addEventListener("DOMContentLoaded", async () => {
  const place = document.getElementById("curve");
  if (!place) return;
  const answer = await fetch(place.dataset.source, { headers: { accept: "application/json" } });
  if (!answer.ok) return;
  const columns = await answer.json();
  if (!columns.step.length) return;
  place.replaceChildren();
  const ink = getComputedStyle(document.body).color;
  const axis = { stroke: ink, grid: { stroke: "#8883" }, ticks: { stroke: "#8883" } };
  const whole = Array.from({ length: 30 }, (_, i) => [1, 2, 5][i % 3] * 10 ** Math.floor(i / 3)); // no half steps
  const options = {
    width: place.clientWidth || 640,
    height: 300,
    scales: { x: { time: false } },
    axes: [{ ...axis, label: place.dataset.step, incrs: whole }, { ...axis, label: place.dataset.loss }],
    series: [{ label: place.dataset.step }, { label: place.dataset.loss, stroke: "#0b62d6", width: 2 }],
  };
  const plot = new uPlot(options, [columns.step, columns.loss], place);
  window.addEventListener("resize", () => plot.setSize({ width: place.clientWidth, height: 300 }));
});
