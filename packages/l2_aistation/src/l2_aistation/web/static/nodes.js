// The pool as a table: the same nodes as on the map, fifty at a time.
const PAGE = 50;
const BADGES = { busy: "info", free: "ok", spare: "info", cordoned: "warn", down: "bad" };

export class NodeTable {
  constructor(pool, helpers) {
    this.pool = pool;
    this.helpers = helpers;
    this.page = 0;
    this.body = document.getElementById("node-rows");
    document.getElementById("nodes-before").onclick = () => this.turn(-1);
    document.getElementById("nodes-after").onclick = () => this.turn(1);
  }

  first() {
    this.page = 0;
  }

  turn(by) {
    this.page += by;
    this.show();
  }

  found() {
    const { pool } = this;
    const all = pool.layout.nodes.map((_, number) => number);
    if (!pool.find) return all;
    return all.filter((number) => {
      const words = [pool.layout.nodes[number][0], this.helpers.stateOf(number), ...this.jobs(number).flat()];
      return words.some((word) => String(word).includes(pool.find));
    });
  }

  jobs(number) {
    const { pool, helpers } = this;
    return helpers.codesOn(number).map((code) => pool.jobs.get(code) || [helpers.t("another tenant"), "", "", ""]);
  }

  show() {
    const found = this.found();
    const pages = Math.max(Math.ceil(found.length / PAGE), 1);
    this.page = Math.min(Math.max(this.page, 0), pages - 1);
    const rows = found.slice(this.page * PAGE, (this.page + 1) * PAGE);
    this.body.replaceChildren(...rows.map((number) => this.row(number)));
    const from = found.length ? this.page * PAGE + 1 : 0;
    document.getElementById("nodes-where").textContent = `${from}–${this.page * PAGE + rows.length} ${this.helpers.t("of")} ${found.length}`;
    document.getElementById("nodes-before").disabled = this.page === 0;
    document.getElementById("nodes-after").disabled = this.page === pages - 1;
  }

  row(number) {
    const { pool, helpers } = this;
    const [id, leaf, cores, models] = pool.layout.nodes[number];
    const [, , cpu, codes] = pool.nodes[number];
    const state = helpers.stateOf(number);
    const row = document.createElement("tr");
    const cell = (...what) => {
      const box = document.createElement("td");
      box.append(...what);
      row.append(box);
      return box;
    };
    cell(id).className = "mono word";
    const badge = Object.assign(document.createElement("span"), { className: `badge ${BADGES[state]}`, textContent: helpers.t(state) });
    const reason = pool.reasons[id];
    cell(badge, reason ? ` ${reason}` : "");
    cell(pool.layout.leaves[leaf][0]);
    cell(pool.layout.leaves[leaf][1]);
    const held = codes.filter((code) => code !== -1).length;
    cell(models.length ? `${held} / ${models.length}` : "–").className = "number";
    cell([...new Set(models.map((model) => pool.layout.models[model]))].join(", ") || "–");
    cell(`${(cpu / 1000).toFixed(0)} / ${cores}`).className = "number";
    const jobs = this.jobs(number);
    const links = jobs.slice(0, 3).flatMap((job, place) => [
      place ? ", " : "",
      job[3] ? Object.assign(document.createElement("a"), { href: `${helpers.base}/jobs/${job[0]}`, textContent: job[0] }) : job[0],
    ]);
    cell(...links, jobs.length > 3 ? ` +${jobs.length - 3}` : "");
    return row;
  }
}
