// What changes while a page is open. Without this file a page shows what was so when it was loaded.
import { append, describe, look, parsed } from "./talk.js";

const address = document.body.dataset.stream;
const part = document.body.dataset.part;
const connection = document.getElementById("connection");
const faults = { daemon: "", stream: "" };

function report(about, text) {
  faults[about] = text;
  const shown = Object.values(faults).filter(Boolean).join(" ");
  if (connection.textContent !== shown) {
    connection.textContent = shown;
  }
}

// ---- the stream ----

// A browser has six connections to a server for all its tabs: one that is not looked at gives its own back, and goes on
// after the last record that it has seen.
let source = null;
let last = "";

function listen() {
  const url = new URL(address, location.href);
  if (last) {
    url.searchParams.set("after", last);
  }
  source = new EventSource(url);
  source.onopen = () => report("stream", "");
  source.onerror = () => {
    const isOver = source.readyState === EventSource.CLOSED;
    report("stream", isOver ? "Not connected. Load the page again, or log in." : "The connection is lost; trying again.");
  };
  source.addEventListener("daemon", (event) => {
    report("daemon", event.data === "running" ? "" : "No daemon is running: nothing goes on until it is started.");
  });
  source.addEventListener("fault", (event) => report("stream", event.data));
  source.addEventListener("reload", () => location.reload());
  source.addEventListener("changed", soon);
  source.addEventListener("head", (event) => {
    last = event.lastEventId || last;
    replace("head", event.data);
    describe(event.data);
    soon();
  });
  source.addEventListener("entry", (event) => {
    last = event.lastEventId || last;
    append(event.data);
  });
}

function hangUp() {
  source?.close();
  source = null;
}

addEventListener("pagehide", hangUp);
addEventListener("pageshow", (event) => {
  if (event.persisted && address && !source) {
    listen();
  }
});

function replace(id, html) {
  const old = document.getElementById(id);
  const made = parsed(html).getElementById(id);
  if (old && made) {
    old.replaceWith(document.importNode(made, true));
  }
}

// ---- lists, and what waits ----

function soon() {
  soon.later ??= setTimeout(() => {
    soon.later = null;
    refresh();
  }, 200);
}

async function refresh() {
  look();
  const asks = document.getElementById("asks");
  const old = part && document.querySelector(part);
  if (!(asks || old)) {
    return;
  }
  const url = new URL(location.href);
  url.searchParams.set("part", part ? "1" : "asks");
  url.searchParams.delete("sent");
  const answer = await fetch(url);
  if (!answer.ok) {
    return;
  }
  const html = await answer.text();
  number(parsed(html).querySelector("[data-open]")?.dataset.open);
  if (asks) {
    merge(asks, parsed(html).getElementById("asks"));
    renewChanged("broken", html);
    replace("turns", html);
    renewChanged("files", html);
    renewChanged("steer", html);
    document.dispatchEvent(new Event("asks"));
    return;
  }
  const made = parsed(html).querySelector(part);
  if (made && !old.contains(document.activeElement)) {
    old.replaceWith(document.importNode(made, true));
  }
}

// What reads the same stays as it is: a list that is open, a button that has the focus.
function renewChanged(id, html) {
  const made = parsed(html).getElementById(id);
  if (made && made.textContent !== document.getElementById(id)?.textContent) {
    replace(id, html);
  }
}

// How much waits for a person, in the menu and in the title of the tab.
function number(open) {
  const badge = document.getElementById("open");
  if (open === undefined || !badge || badge.dataset.open === open) {
    return;
  }
  document.dispatchEvent(new CustomEvent("waits", { detail: { now: Number(open), before: Number(badge.dataset.open) } }));
  badge.dataset.open = badge.textContent = open;
  badge.hidden = open === "0";
  document.title = `${open === "0" ? "" : `(${open}) `}${document.title.replace(/^\(\d+\) /, "")}`;
}

// What waits stays where it is, with what is being written: what is new comes below, what is over is marked.
function merge(old, made) {
  const now = new Map([...made.children].map((ask) => [ask.id, ask]));
  for (const ask of [...old.children]) {
    const fresh = now.get(ask.id);
    now.delete(ask.id);
    if (fresh) {
      renew(ask, fresh);
    } else if (ask.id) {
      finish(ask);
    } else {
      ask.remove();
    }
  }
  for (const ask of now.values()) {
    old.append(document.importNode(ask, true));
  }
}

// The server forgets the forms of old pages.
function renew(ask, fresh) {
  const numbers = fresh.querySelectorAll("input[name=form]");
  for (const [place, input] of [...ask.querySelectorAll("input[name=form]")].entries()) {
    input.value = numbers[place]?.value ?? input.value;
  }
}

function finish(ask) {
  if (ask.classList.contains("over")) {
    return;
  }
  ask.classList.add("over");
  for (const control of ask.querySelectorAll("button, input, textarea")) {
    control.disabled = true;
  }
  // in the place of a line: nothing below moves
  (ask.querySelector(".meta") ?? ask.querySelector("h2")).textContent = "This was answered, or is over.";
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    if (!(part === "#waiting" && window.Notification?.permission === "granted")) {
      hangUp();
    }
  } else if (address && !source) {
    listen();
    soon();
  }
});

// ---- the past ----

document.getElementById("slide")?.addEventListener("change", (event) => {
  if (event.target.id === "seq") {
    document.getElementById("than").value = Math.max(1, event.target.value - 1);
    event.currentTarget.submit();
  }
});

if (address && !document.hidden) {
  listen();
}
