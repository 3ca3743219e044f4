// The loss curve of a job: one series per attempt, so that a fault and the way back are seen.
document.addEventListener("DOMContentLoaded", () => {
  const box = document.getElementById("loss");
  if (!box) return;
  const card = document.getElementById("loss-card");
  const series = new Map(); // attempt -> Map(step -> loss)
  const colours = ["#2f6fde", "#d97706", "#15935a", "#b4378f", "#0e8fa3", "#6d4fd1"];
  let plot = null;
  let shown = 0;
  let due = false;

  function add(point) {
    if (point.loss === null || point.loss === undefined) return;
    if (!series.has(point.attempt)) series.set(point.attempt, new Map());
    series.get(point.attempt).set(point.step, point.loss);
  }

  function data() {
    const steps = [...new Set([...series.values()].flatMap((one) => [...one.keys()]))].sort((a, b) => a - b);
    const rows = [...series.values()].map((one) => steps.map((step) => one.get(step) ?? null));
    return [steps, ...rows];
  }

  function draw() {
    due = false;
    if (!series.size) return;
    card.hidden = false;
    if (plot && shown === series.size) {
      plot.setData(data());
      return;
    }
    if (plot) plot.destroy();
    shown = series.size;
    const ink = getComputedStyle(document.body).color;
    const axis = { stroke: ink, grid: { stroke: "rgba(128,128,128,0.2)" } };
    const lines = [...series.keys()].map((attempt, number) => ({
      label: `${box.dataset.loss} (${box.dataset.attempt} ${attempt})`,
      stroke: colours[number % colours.length],
      width: 2,
      points: { show: true, size: 4 },
    }));
    plot = new uPlot(
      {
        width: box.clientWidth,
        height: 260,
        scales: { x: { time: false } },
        axes: [axis, axis],
        series: [{ label: box.dataset.step }, ...lines],
      },
      data(),
      box,
    );
  }

  function later() {
    if (due) return;
    due = true;
    setTimeout(draw, 250);
  }

  window.addEventListener("resize", () => {
    if (plot) plot.setSize({ width: box.clientWidth, height: 260 });
  });
  fetch(box.dataset.steps)
    .then((answer) => (answer.ok ? answer.json() : []))
    .then((steps) => {
      steps.forEach(add);
      draw();
    });
  const source = new EventSource(box.dataset.watch);
  source.addEventListener("step", (event) => {
    add(JSON.parse(event.data));
    later();
  });
  source.addEventListener("end", () => source.close());
});
