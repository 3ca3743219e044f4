// What is at a cell and on a node: the tip beside the pointer or the cursor, and the panel that stays.
import { FREE, NO_PLACE } from "./map.js";

const BADGES = { busy: "info", free: "ok", spare: "info", cordoned: "warn", down: "bad" };

export class Details {
  constructor(pool, map, helpers) {
    this.pool = pool;
    this.map = map;
    this.helpers = helpers;
    this.node = null; // whose panel is open
  }

  holdersAt(node, place) {
    const row = this.pool.nodes[node];
    const part = (row[4] || []).find(([index]) => index === place);
    return part ? part[1] : place in row[3] && row[3][place] !== FREE ? [row[3][place]] : [];
  }

  // All that is on a node, also what holds cores alone.
  codesOn(node) {
    const places = [...this.pool.layout.nodes[node][3].keys(), NO_PLACE];
    return [...new Set(places.flatMap((place) => this.holdersAt(node, place)))];
  }

  state(node) {
    const reason = this.pool.reasons[this.pool.layout.nodes[node][0]];
    return this.helpers.t(this.helpers.stateOf(node)) + (reason ? ` (${reason})` : "");
  }

  where(node) {
    const { t } = this.helpers;
    const [, leaf, cores] = this.pool.layout.nodes[node];
    const used = (this.pool.nodes[node][2] / 1000).toFixed(0);
    return `${this.pool.layout.leaves[leaf].join(" · ")} · ${t("CPU")} ${used} ${t("of")} ${cores}`;
  }

  words(code) {
    const { t } = this.helpers;
    const job = this.pool.jobs.get(code);
    return job ? `${job[0]} · ${t(job[3])} · ${t("Queue")} ${job[1]} · ${job[2]}` : t("another tenant");
  }

  describe({ node, place }) {
    const { layout } = this.pool;
    const [id, , , models] = layout.nodes[node];
    const lines = [[id, this.state(node)], ["", this.where(node)]];
    if (!models.length) {
      for (const code of this.codesOn(node).slice(0, 4)) lines.push(["", this.words(code)]);
      return lines;
    }
    const model = `${layout.models[models[place]]} ${place}`;
    const holders = this.holdersAt(node, place);
    if (!holders.length) lines.push([model, this.helpers.t("free")]);
    for (const code of holders) lines.push([model, this.words(code)]);
    return lines;
  }

  tip(cursor) {
    const box = this.helpers.element("tip");
    if (!cursor) {
      box.hidden = true;
      return;
    }
    box.replaceChildren(...this.describe(cursor).map(([name, text]) => {
      const line = document.createElement("div");
      if (name) line.append(Object.assign(document.createElement("b"), { textContent: `${name} ` }));
      line.append(text);
      return line;
    }));
    box.hidden = false;
    const { map } = this;
    const at = map.place(cursor.node, cursor.place);
    const left = Math.min(at.x + map.cell + 10, map.width - box.offsetWidth - 4);
    const below = at.y + map.cell + 8;
    box.style.left = `${Math.max(left, 0)}px`;
    box.style.top = `${below + box.offsetHeight > map.height ? Math.max(at.y - box.offsetHeight - 8, 0) : below}px`;
  }

  // The panel of a node; null closes it.
  open(node) {
    const { t, base, element, stateOf } = this.helpers;
    this.node = node;
    element("details").hidden = node === null;
    if (node === null) return;
    const { layout, nodes, jobs, reasons } = this.pool;
    const [id, , , models] = layout.nodes[node];
    const state = stateOf(node);
    const held = nodes[node][3].filter((code) => code !== FREE).length;
    element("details-name").textContent = id;
    element("details-state").textContent = this.state(node);
    element("details-state").className = `badge ${BADGES[state]}`;
    element("details-where").textContent =
      this.where(node) + (models.length ? ` · ${held} ${t("of")} ${models.length} ${t("accelerators held")}` : "");
    element("details-jobs").replaceChildren(...this.codesOn(node).map((code) => {
      const item = document.createElement("li");
      const job = jobs.get(code);
      if (job) {
        item.append(Object.assign(document.createElement("a"), { href: `${base}/jobs/${job[0]}`, textContent: job[0] }));
        item.append(` ${t(job[3])} · ${t("Queue")} ${job[1]} · ${job[2]}`);
      } else item.textContent = t("another tenant");
      return item;
    }));
    const form = element("details-form");
    if (!form) return;
    const verb = reasons[id] !== undefined || state === "cordoned" ? "uncordon" : "cordon";
    form.action = `${base}/nodes/${encodeURIComponent(id)}/${verb}`;
    form.querySelector("button").textContent = t(verb);
  }
}
