// Live updates and times. Every page works without this; it only brings what is newer.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);

  const spell = (seconds) => {
    const minutes = Math.floor(seconds / 60);
    const hours = Math.floor(seconds / 3600);
    const days = Math.floor(seconds / 86400);
    if (days > 1) return `${days} days`;
    if (days === 1) return "1 day";
    if (hours > 0) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
    if (minutes >= 10 || (minutes > 0 && seconds % 60 === 0)) return `${minutes} min`;
    return minutes > 0 ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
  };

  const tellTimes = () => {
    for (const time of document.querySelectorAll("time[data-distance]")) {
      const seconds = Math.round((Date.parse(time.dateTime) - Date.now()) / 1000);
      const length = spell(Math.abs(seconds));
      time.textContent = seconds === 0 ? "now" : seconds > 0 ? `in ${length}` : `${length} ago`;
    }
    for (const time of document.querySelectorAll("time[data-clock]")) {
      time.textContent = new Date(time.dateTime).toLocaleTimeString();
      time.removeAttribute("data-clock");
    }
  };

  // Puts what the server rendered in place of what was there, and the focus back where it was.
  const swap = (id, html) => {
    const box = byId(id);
    if (!box) return;
    const active = document.activeElement;
    const focused = active && box.contains(active) ? active.id : "";
    box.innerHTML = html;
    if (focused) byId(focused)?.focus();
    tellTimes();
  };

  // Shows how many wait in the tab's title, and tells a screen reader if that has changed.
  const count = (changed) => {
    const told = document.querySelector("[data-count]");
    if (!told) return;
    const waiting = Number(told.dataset.count);
    const title = document.title.replace(/^\(\d+\) /, "");
    document.title = waiting > 0 ? `(${waiting}) ${title}` : title;
    const announce = byId("announce");
    if (changed && announce) announce.textContent = told.textContent;
  };

  const write = (html) => {
    const provisional = byId("provisional");
    if (!provisional) return;
    provisional.innerHTML = html === null ? "" : provisional.innerHTML + html;
    provisional.hidden = provisional.innerHTML === "";
  };

  const addStep = (event) => {
    const list = byId("timeline");
    if (!list || byId(`step-${event.lastEventId}`)) return;
    list.insertAdjacentHTML("beforeend", event.data);
    if (list.lastElementChild.dataset.type === "assistant_message") write(null);
    tellTimes();
  };

  const listen = (path) => {
    const source = new EventSource(path);
    const offline = byId("offline");
    const on = (name, then) => source.addEventListener(name, then);
    on("open", () => { offline.hidden = true; });
    on("error", () => { offline.hidden = source.readyState !== EventSource.CLOSED; });
    on("inbox", (event) => {
      const before = document.querySelector("[data-count]")?.dataset.count;
      swap("inbox", event.data);
      count(before !== document.querySelector("[data-count]")?.dataset.count);
    });
    on("head", (event) => swap("head", event.data));
    on("step", addStep);
    on("delta", (event) => write(event.data));
    on("withdrawn", () => write(null));
    on("fresh", () => location.reload());
    on("over", () => { source.close(); location.reload(); });
    on("end", () => { source.close(); write(null); byId("controls")?.remove(); });
    // A page that the browser keeps for going back must not hold a connection.
    addEventListener("pagehide", () => source.close());
    addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
  };

  tellTimes();
  count(false);
  setInterval(tellTimes, 5000);
  const live = document.querySelector("[data-events]");
  if (live) listen(live.dataset.events);
})();
