"use strict";
// Sliders over stored signals: a range moves its number field; the curve's share is shown at once, the
// funnel is asked of the server by the form.
document.addEventListener("DOMContentLoaded", () => {
  const PLACES = 200;
  for (const dial of document.querySelectorAll(".dial")) {
    const low = Number(dial.dataset.low), high = Number(dial.dataset.high), log = dial.dataset.log === "yes";
    const points = JSON.parse(dial.dataset.points || "[]");
    const range = dial.querySelector("input[type=range]"), field = dial.querySelector("input[name]");
    const share = dial.querySelector("output"), mark = dial.querySelector("line");
    const part = value => Math.min(1, Math.max(0, log ? Math.log(Math.max(value, low) / low) / Math.log(high / low) : (value - low) / (high - low)));
    const value = place => log ? low * (high / low) ** (place / PLACES) : low + (high - low) * place / PLACES;
    const show = number => {
      if (mark) { mark.setAttribute("x1", 150 * part(number)); mark.setAttribute("x2", 150 * part(number)); }
      if (!points.length) return;
      let at = points.findIndex(point => point[0] >= number);
      if (at < 0) at = points.length - 1;
      const before = points[Math.max(0, at - 1)], after = points[at];
      const way = after[0] > before[0] ? Math.min(1, Math.max(0, (number - before[0]) / (after[0] - before[0]))) : 1;
      share.textContent = (100 * (before[1] + way * (after[1] - before[1]))).toFixed(1) + " %";
    };
    const given = field.value.trim() === "" ? low : Number(field.value);
    range.value = Math.round(PLACES * part(given));
    range.addEventListener("input", () => {
      field.value = Number(value(Number(range.value)).toPrecision(4));
      show(Number(field.value));
    });
    field.addEventListener("input", () => {
      const number = Number(field.value);
      if (field.value.trim() === "" || Number.isNaN(number)) return;
      range.value = Math.round(PLACES * part(number));
      show(number);
    });
  }
});
