// The pool's page: figures, map or table, details of a node; kept up to date by ticks of what changed.
import { follow } from "./live.js";
import { Details } from "./details.js";
import { FREE, PALETTE, PoolMap, REST } from "./map.js";
import { NodeTable } from "./nodes.js";

const HELD_STATES = new Set(["held", "stopping"]);
const STARTING_STATES = new Set(["starting", "resuming"]);
const root = document.getElementById("pool");
const words = JSON.parse(root.dataset.words);
const base = root.dataset.base;
const t = (word) => words[word] || word;
const element = (id) => document.getElementById(id);
const map = new PoolMap(element("map"));
const pool = { layout: null, nodes: [], jobs: new Map(), reasons: {}, mode: "queue", find: "", pick: null };
let table = null;
const stateOf = (node) => pool.layout.states[pool.nodes[node][1]];
const details = new Details(pool, map, { t, base, element, stateOf });

function readColours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  map.family = of("--font") || "sans-serif";
  map.colours = { ink: of("--ink"), soft: of("--soft"), line: of("--line"), free: of("--map-free") };
  pool.health = {
    free: of("--map-free"), running: of("--map-running"), starting: of("--map-starting"), held: of("--map-held"),
    spare: of("--map-spare"), cordoned: of("--map-cordoned"), down: of("--map-down"),
  };
}

// -- what a cell looks like ---------------------------------------------------------------------------

function rootOf(queue) {
  const parents = pool.parents;
  for (let steps = 0; steps < 16 && parents.get(queue); steps += 1) queue = parents.get(queue);
  return queue;
}

function nameQueues() {
  pool.parents = new Map(pool.layout.queues);
  const all = [...pool.parents.keys()];
  const roots = all.filter((name) => !pool.parents.get(name));
  pool.byRoot = all.length > PALETTE.length && roots.length < all.length;
  pool.colour = new Map();
  (pool.byRoot ? roots : all).slice(0, PALETTE.length).forEach((name, number) => pool.colour.set(name, PALETTE[number]));
}

const keyOf = (queue) => (pool.byRoot ? rootOf(queue) : queue);

function groupOf(node, code) {
  if (pool.mode === "queue") {
    if (code === 0) return "another tenant";
    return code === FREE ? "free" : keyOf(pool.jobs.get(code)[1]);
  }
  const state = stateOf(node);
  if (state === "down" || state === "cordoned") return state;
  if (code === FREE) return state === "spare" ? "spare" : "free";
  const job = pool.jobs.get(code);
  if (!job) return "running";
  return HELD_STATES.has(job[3]) ? "held" : STARTING_STATES.has(job[3]) ? "starting" : "running";
}

function fillOf(group) {
  if (pool.mode === "health") return pool.health[group];
  return group === "free" ? map.colours.free : pool.colour.get(group) || REST;
}

function matches(node, code) {
  if (!pool.find) return true;
  const job = pool.jobs.get(code);
  const name = pool.layout.nodes[node][0];
  return name.includes(pool.find) || (job ? job.slice(0, 3).some((word) => word.includes(pool.find)) : false);
}

function look(node, place) {
  const [, , cpu, codes] = pool.nodes[node];
  const state = stateOf(node);
  const away = state === "down" || state === "cordoned";
  const edge = pool.mode === "queue" && away ? pool.health[state] : pool.mode === "queue" && state === "spare" ? pool.health.spare : null;
  if (!codes.length) {
    const group = pool.mode === "health" ? groupOf(node, state === "busy" ? 0 : FREE) : "free";
    const found = [FREE, ...details.codesOn(node)].some((code) => matches(node, code));
    const dim = !found || pool.pick !== null;
    if (pool.mode === "health" && group !== "running") return { fill: fillOf(group), dim };
    const part = Math.min(cpu / (pool.layout.nodes[node][2] * 1000 || 1), 1);
    return { back: map.colours.free, fill: pool.mode === "health" ? fillOf("running") : PALETTE[0], part, edge, dim };
  }
  const code = codes[place];
  const group = groupOf(node, code);
  const dim = !matches(node, code) || (pool.pick !== null && pool.pick !== group);
  const shared = (pool.nodes[node][4] || []).some(([index]) => index === place);
  if (shared) return { back: map.colours.free, fill: fillOf(group), part: 0.5, edge, dim };
  return { fill: fillOf(group), edge, dim };
}

// -- figures and legend -------------------------------------------------------------------------------

function count() {
  const groups = new Map();
  let free = 0, held = 0, away = 0;
  pool.nodes.forEach(([, state, , codes], node) => {
    const out = state >= 3; // cordoned, down
    for (const code of codes) {
      if (code !== FREE) held += 1;
      else if (out) away += 1;
      else free += 1;
      const group = groupOf(node, code);
      groups.set(group, (groups.get(group) || 0) + 1);
    }
  });
  return { groups, free, held, away };
}

const number = (value) => value.toLocaleString(document.documentElement.lang);

function figures(frame) {
  const { groups, free, held, away } = count();
  const states = frame.states, jobs = frame.counts;
  const waiting = jobs.queued || 0;
  const live = ["running", "starting", "resuming", "held", "stopping"].reduce((sum, name) => sum + (jobs[name] || 0), 0);
  const nodes = pool.layout.nodes.length;
  const values = {
    held, free, away, of: held + free + away, up: nodes - states.down, nodes, down: states.down,
    cordoned: states.cordoned, spare: states.spare, live, waiting,
  };
  for (const [name, value] of Object.entries(values)) {
    for (const box of document.querySelectorAll(`[data-figure="${name}"]`)) box.textContent = number(value);
  }
  for (const box of document.querySelectorAll("[data-figure=cycle]")) box.textContent = frame.cycle_ms.toFixed(1);
  legend(groups);
}

function legend(groups) {
  const order = pool.mode === "health"
    ? ["running", "starting", "held", "free", "spare", "cordoned", "down"]
    : [...[...groups.keys()].filter((name) => name !== "free").sort((a, b) => groups.get(b) - groups.get(a)), "free"];
  const text = order.map((name) => `${name}:${groups.get(name) || 0}`).join("|") + pool.mode + pool.pick;
  if (text === pool.legendText) return;
  pool.legendText = text;
  const box = element("legend");
  const focused = document.activeElement && document.activeElement.dataset.group;
  box.replaceChildren(...order.filter((name) => groups.get(name)).map((name) => {
    const button = document.createElement("button");
    button.type = "button";
    button.dataset.group = name;
    button.setAttribute("aria-pressed", String(pool.pick === name));
    const cell = document.createElement("i");
    cell.style.background = fillOf(name);
    button.append(cell, `${t(name)} `, Object.assign(document.createElement("b"), { textContent: number(groups.get(name)) }));
    button.addEventListener("click", () => {
      pool.pick = pool.pick === name ? null : name;
      map.draw();
      legend(count().groups);
    });
    return button;
  }));
  if (pool.mode === "queue" && pool.layout.nodes.some((node) => !node[3].length)) {
    const cell = document.createElement("i");
    cell.style.background = PALETTE[0];
    const note = document.createElement("span");
    note.append(cell, t("CPU in use, of nodes without accelerators"));
    box.append(note);
  }
  if (focused !== undefined) box.querySelector(`[data-group="${CSS.escape(focused)}"]`)?.focus();
}

// -- taking in what the server sends ------------------------------------------------------------------

function take(frame) {
  const changed = new Set();
  const touched = new Set(Object.keys(frame.jobs).map(Number));
  for (const [code, job] of Object.entries(frame.jobs)) pool.jobs.set(Number(code), job);
  for (const row of frame.nodes) {
    pool.nodes[row[0]] = row;
    changed.add(row[0]);
  }
  if (pool.mode === "health" && touched.size) {
    // a job that changed its state changes its cells, though no node did
    pool.nodes.forEach((row) => row[3].some((code) => touched.has(code)) && changed.add(row[0]));
  }
  pool.reasons = frame.reasons;
  pool.frame = frame;
  return changed;
}

function forget() {
  if (pool.jobs.size < 4 * pool.nodes.length + 1000) return;
  const alive = new Set(pool.nodes.flatMap((row) => [...row[3], ...(row[4] || []).flatMap((part) => part[1])]));
  for (const code of pool.jobs.keys()) if (!alive.has(code)) pool.jobs.delete(code);
}

function onTick(frame) {
  if (frame.reset || frame.base !== pool.layout.base) {
    load();
    return;
  }
  const began = performance.now();
  const changed = take(frame);
  forget();
  map.update(changed);
  figures(frame);
  if (table && !element("table-view").hidden) table.show();
  if (changed.has(details.node)) details.open(details.node);
  root.dataset.tickMs = (performance.now() - began).toFixed(1);
  root.dataset.ticks = String(Number(root.dataset.ticks || 0) + 1);
}

async function load() {
  const answer = await fetch(`${base}/live/pool`, { headers: { Accept: "application/json" } });
  if (!answer.ok) return;
  const { layout, frame } = await answer.json();
  const began = performance.now();
  Object.assign(pool, { layout, nodes: [], jobs: new Map(), legendText: "" });
  map.cursor = null;
  take(frame);
  nameQueues();
  map.show(layout, look);
  figures(frame);
  table = new NodeTable(pool, { t, base, stateOf, codesOn: (node) => details.codesOn(node) });
  if (!element("table-view").hidden) table.show();
  root.dataset.drawMs = (performance.now() - began).toFixed(1);
  root.dataset.ready = "yes";
  if (!pool.stream) pool.stream = follow(base, "pool", frame.v, onTick);
  else pool.stream.restart(frame.v);
}

// -- what the reader does -----------------------------------------------------------------------------

function redraw() {
  map.draw();
  figures(pool.frame);
}

for (const input of document.querySelectorAll("input[name=colour]")) {
  input.addEventListener("change", () => {
    pool.mode = input.value;
    pool.pick = null;
    redraw();
  });
}
for (const input of document.querySelectorAll("input[name=view]")) {
  input.addEventListener("change", () => {
    element("map-view").hidden = input.value !== "map";
    element("table-view").hidden = input.value !== "table";
    if (input.value === "table") table.show();
    else redrawSize();
  });
}
element("find").addEventListener("input", (event) => {
  pool.find = event.target.value.trim();
  if (table) table.first();
  if (element("map-view").hidden) table.show();
  else map.draw();
});
const canvas = element("map");
canvas.addEventListener("pointermove", (event) => {
  const box = canvas.getBoundingClientRect();
  const cell = pool.layout && map.at(event.clientX - box.left, event.clientY - box.top);
  canvas.style.cursor = cell ? "pointer" : "default";
  details.tip(cell);
});
canvas.addEventListener("pointerleave", () => details.tip(null));
canvas.addEventListener("click", (event) => {
  const box = canvas.getBoundingClientRect();
  const cell = map.at(event.clientX - box.left, event.clientY - box.top);
  if (cell) {
    map.moveCursor(cell);
    details.open(cell.node);
  }
});
canvas.addEventListener("keydown", (event) => {
  if (!pool.layout || !pool.layout.nodes.length) return;
  if (event.key === "Enter" || event.key === " ") {
    if (map.cursor) details.open(map.cursor.node);
  } else if (event.key === "Escape") {
    details.tip(null);
    details.open(null);
  } else {
    const start = { node: map.blocks[0].nodes[0], place: 0 };
    const next = map.next(map.cursor || start, event.key);
    if (!next) return;
    const cursor = map.cursor || event.key === "End" ? next : start;
    map.moveCursor(cursor);
    details.tip(cursor);
  }
  event.preventDefault();
});
canvas.addEventListener("blur", () => {
  details.tip(null);
  if (map.cursor) {
    map.cursor = null;
    map.draw();
  }
});
element("details-close").addEventListener("click", () => details.open(null));

function redrawSize() {
  if (!pool.layout || element("map-view").hidden) return;
  if (map.canvas.parentElement.clientWidth === map.width) return;
  map.arrange();
  map.draw();
}
let resizing = 0;
window.addEventListener("resize", () => {
  clearTimeout(resizing);
  resizing = setTimeout(redrawSize, 120);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  readColours();
  redraw();
});
readColours();
load();
