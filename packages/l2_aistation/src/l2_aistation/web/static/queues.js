// Shares of the queues over time: the topmost queues together, or one with its guarantee and cap.
import { PALETTE } from "./map.js";

const root = document.getElementById("queues");
const words = JSON.parse(root.dataset.words);
const box = document.getElementById("curve");
const choice = document.getElementById("curve-of");
let plot = null;
let data = null;

const rows = () =>
  [...document.querySelectorAll("tr[data-queue]")].map((row) => ({
    name: row.dataset.queue,
    parent: row.dataset.parent,
    guarantee: Number(row.dataset.guarantee),
    cap: row.dataset.cap === "" ? null : Number(row.dataset.cap),
  }));

// What a queue and all below it held.
function held(name, all) {
  const sum = (data.held[name] || data.at.map(() => 0)).map((value, at) => (data.capacity[at] === null ? null : value));
  for (const child of all.filter((row) => row.parent === name)) {
    held(child.name, all).forEach((value, at) => (sum[at] = value === null ? null : sum[at] + value));
  }
  return sum;
}

function lines() {
  const all = rows();
  const flat = (value) => data.at.map(() => value);
  const dashed = (label, stroke, value) => ({ series: { label, stroke, dash: [6, 4], width: 1.5 }, values: flat(value) });
  if (choice.value) {
    const row = all.find((one) => one.name === choice.value);
    const found = [{ series: { label: `${row.name} (${words.held})`, stroke: PALETTE[0], fill: `${PALETTE[0]}22`, width: 2 }, values: held(row.name, all) }];
    if (row.guarantee) found.push(dashed(words.guarantee, "#5b6876", row.guarantee));
    if (row.cap !== null) found.push(dashed(words.cap, "#b3261e", row.cap));
    return found;
  }
  const tops = all.filter((row) => !all.some((other) => other.name === row.parent)).slice(0, PALETTE.length);
  const found = tops.map((row, number) => ({
    series: { label: row.name, stroke: PALETTE[number], width: 2 },
    values: held(row.name, all),
  }));
  found.push({ series: { label: words.pool, stroke: "#8793a0", dash: [6, 4], width: 1.5 }, values: data.capacity });
  return found;
}

function draw() {
  if (!data) return;
  const found = lines();
  const style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--soft").trim();
  const axis = { stroke: ink, grid: { stroke: "rgba(128,128,128,0.18)", width: 1 }, ticks: { show: false }, font: `12px ${style.getPropertyValue("--font")}` };
  const narrow = box.clientWidth < 500;
  const whole = (plot_, value) => (value === null || value === undefined ? "–" : Math.round(value).toLocaleString(document.documentElement.lang));
  const options = {
    width: box.clientWidth,
    height: narrow ? 220 : 280,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC"), // as everywhere on the pages
    scales: { y: { range: (plot_, low, high) => [0, Math.max(high * 1.05, 1)] } },
    axes: [{ ...axis, space: narrow ? 90 : 70, values: "{HH}:{mm}" }, { ...axis, size: 58, values: (plot_, ticks) => ticks.map((tick) => tick.toLocaleString(document.documentElement.lang)) }],
    series: [{ label: words.Time, value: "{YYYY}-{MM}-{DD} {HH}:{mm}" }, ...found.map((line) => ({ ...line.series, points: { show: false }, value: whole }))],
    legend: { live: !narrow },
  };
  const seconds = data.at[data.at.length - 1] - data.at[0];
  if (seconds > 100000) options.axes[0].values = "{MM}-{DD} {HH}h";
  if (seconds < 600) Object.assign(options.axes[0], { values: "{HH}:{mm}:{ss}", space: 90 });
  if (plot) plot.destroy();
  plot = new uPlot(options, [data.at, ...found.map((line) => line.values)], box);
  root.dataset.ready = "yes";
}

async function load() {
  const span = document.querySelector("input[name=span]:checked").value;
  const answer = await fetch(`${root.dataset.base}/live/shares?span=${span}`);
  if (!answer.ok) return;
  data = await answer.json();
  draw();
}

for (const input of document.querySelectorAll("input[name=span]")) input.addEventListener("change", load);
choice.addEventListener("change", draw);
let resizing = 0;
window.addEventListener("resize", () => {
  clearTimeout(resizing);
  resizing = setTimeout(draw, 150);
});
setInterval(() => document.hidden || load(), 15000);
load();
