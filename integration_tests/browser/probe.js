// Looks at a laid-out page as a person would: what runs out of the window, is cut, or overlaps.
() => {
  const faults = [];
  const name = e => `<${e.tagName.toLowerCase()}${e.className && e.className.baseVal === undefined ? "." + String(e.className).trim().replace(/\s+/g, ".") : ""}> "${(e.textContent || "").trim().replace(/\s+/g, " ").slice(0, 40)}"`;
  const shown = e => { const r = e.getBoundingClientRect(), s = getComputedStyle(e); return r.width > 1 && r.height > 1 && s.visibility !== "hidden" && s.opacity !== "0"; };
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth + 1) faults.push(`page is ${root.scrollWidth - root.clientWidth} px wider than the window`);
  const texts = [...document.querySelectorAll("body *")].filter(e =>
    !e.closest("svg, canvas, .uplot, pre, option, .skip") && shown(e) &&
    [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()));
  for (const e of texts) {
    const s = getComputedStyle(e);
    if (["hidden", "clip"].includes(s.overflowX) && e.scrollWidth > e.clientWidth + 1) faults.push(`text cut in ${name(e)}`);
  }
  const boxes = texts.map(e => {
    const range = document.createRange();  // of the element's own words, not of what is folded away in it
    const words = [...e.childNodes].filter(n => n.nodeType === 3 && n.textContent.trim());
    range.setStartBefore(words[0]);
    range.setEndAfter(words[words.length - 1]);
    return { e, r: range.getBoundingClientRect() };
  }).filter(box => box.r.width > 1).slice(0, 600);
  const sticky = e => e.closest("header.top");
  for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length; j++) {
    const a = boxes[i], b = boxes[j];
    if (a.e.contains(b.e) || b.e.contains(a.e) || sticky(a.e) !== sticky(b.e)) continue;
    const w = Math.min(a.r.right, b.r.right) - Math.max(a.r.left, b.r.left);
    const h = Math.min(a.r.bottom, b.r.bottom) - Math.max(a.r.top, b.r.top);
    const inline = getComputedStyle(a.e).display === "inline" || getComputedStyle(b.e).display === "inline";
    if (w > 3 && h > 5 && !inline) faults.push(`${name(a.e)} overlaps ${name(b.e)}`);
  }
  const text = document.body.innerText;
  for (const word of ["undefined", "NaN", "[object Object]", "None,"]) if (text.includes(word)) faults.push(`the page says ${word}`);
  return faults.slice(0, 10);
}
