// Tells the page's fragments that something changed: they fetch themselves again.
import { follow } from "./live.js";

const base = document.querySelector("[data-base]").dataset.base;
let first = true;
follow(base, "jobs", "", () => {
  if (!first) document.body.dispatchEvent(new CustomEvent("live-jobs"));
  first = false;
});
