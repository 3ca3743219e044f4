// Asks two models the same thing and shows both answers as they stream.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const form = document.getElementById("chat");
  if (!form) return;
  const sides = [...form.querySelectorAll(".side")].map((card) => ({
    model: card.querySelector("select"),
    talk: card.querySelector(".talk"),
    timing: card.querySelector(".timing"),
    messages: [],
  }));
  const question = document.getElementById("question");

  const turn = (side, role, text) => {
    const box = document.createElement("div");
    box.className = `turn ${role}`;
    box.textContent = text;
    side.talk.append(box);
    return box;
  };

  const ask = async (side, text) => {
    turn(side, "user", text);
    side.messages.push({ role: "user", content: text });
    const box = turn(side, "assistant", "");
    const start = performance.now();
    let first = null;
    let tokens = 0;
    try {
      const response = await fetch(form.dataset.url, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({
          model: side.model.value,
          messages: side.messages,
          stream: true,
          stream_options: { include_usage: true },
          temperature: Number(document.getElementById("temperature").value),
          max_tokens: Number(document.getElementById("most").value),
        }),
      });
      if (!response.ok) throw new Error((await response.json()).error.message);
      for await (const chunk of events(response.body)) {
        if (chunk.error) throw new Error(chunk.error.message);
        if (chunk.usage) tokens = chunk.usage.completion_tokens;
        const piece = chunk.choices.length ? chunk.choices[0].delta.content : "";
        if (piece) {
          first ??= performance.now() - start;
          box.textContent += piece;
        }
      }
      side.messages.push({ role: "assistant", content: box.textContent });
    } catch (error) {
      box.classList.add("error");
      box.textContent += error.message;
    }
    const total = performance.now() - start;
    side.timing.textContent = `${Math.round(first ?? total)} / ${Math.round(total)} ms · ${tokens} tokens`;
  };

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = question.value.trim();
    question.value = "";
    await Promise.all(sides.map((side) => ask(side, text)));
  });
  document.getElementById("clear").addEventListener("click", () => {
    for (const side of sides) {
      side.messages = [];
      side.talk.replaceChildren();
      side.timing.textContent = "";
    }
  });
});

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  while (true) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const data = part.replace(/^data: /, "");
      if (data !== "[DONE]") yield JSON.parse(data);
    }
  }
}
