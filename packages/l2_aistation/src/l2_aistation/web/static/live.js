// One stream of ticks from the server; closed while nobody looks at the page, taken up where it was.
export function follow(base, topic, start, onData) {
  let version = start;
  let source = null;

  function open() {
    if (source) return;
    source = new EventSource(`${base}/live/events?topic=${topic}&since=${encodeURIComponent(version)}`);
    source.addEventListener(topic, (event) => {
      const data = JSON.parse(event.data);
      version = data.v;
      onData(data);
    });
    source.addEventListener("error", () => {
      // The browser would come back with the first version: open again with the newest one.
      close();
      setTimeout(() => document.hidden || open(), 2000);
    });
  }

  function close() {
    if (source) source.close();
    source = null;
  }

  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", () => document.hidden || open());
  if (!document.hidden) open();
  return { restart: (from) => { version = from; close(); open(); } };
}
