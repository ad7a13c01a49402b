// What changes while a page is open. Without this file a page shows what was so when it was loaded.
const MOST = 600; // entries that stay on a page which is left open
const AT_ONCE = 100; // entries that leave it together
const NEAR = 160; // pixels from the end at which a reader follows what is new

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

function listen() {
  const source = new EventSource(address);
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
  source.addEventListener("changed", () => {
    clearTimeout(listen.later);
    listen.later = setTimeout(refresh, 200);
  });
  source.addEventListener("head", (event) => replace("head", event.data));
  source.addEventListener("entry", (event) => append(event.data));
  addEventListener("pagehide", () => source.close());
}

// HTML in these is made by our server, which escapes every text of others.
function parsed(html) {
  return new DOMParser().parseFromString(html, "text/html");
}

function replace(id, html) {
  const old = document.getElementById(id);
  const made = parsed(html).getElementById(id);
  if (old && made) {
    old.replaceWith(document.importNode(made, true));
  }
}

// ---- the story ----

function append(html) {
  const story = document.getElementById("story");
  const isAtEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - NEAR;
  story.querySelector(":scope > .empty")?.remove();
  for (const entry of parsed(`<ol>${html}</ol>`).querySelectorAll("body > ol > li")) {
    const made = document.importNode(entry, true);
    made.classList.add("new");
    story.append(made);
  }
  if (isAtEnd) {
    scrollTo({ top: document.documentElement.scrollHeight });
    shorten(story);
  }
}

function shorten(story) {
  if (story.children.length <= MOST) {
    return;
  }
  for (const old of [...story.children].slice(0, AT_ONCE)) {
    old.remove();
  }
  const first = story.querySelector("[data-seq]");
  const link = document.getElementById("earlier");
  if (first && link) {
    link.search = `?before=${first.dataset.seq}`;
  }
}

// "Earlier" puts what is before in front of what is shown, and the reader stays where they are.
document.addEventListener("click", async (event) => {
  const link = event.target.closest?.("#earlier");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) {
    return;
  }
  event.preventDefault();
  const answer = await fetch(`${link.href}&part=1`);
  if (!answer.ok) {
    location.assign(link.href);
    return;
  }
  const page = parsed(await answer.text());
  const story = document.getElementById("story");
  const height = document.documentElement.scrollHeight;
  const entries = [...page.querySelectorAll("#story > li")].map((entry) => document.importNode(entry, true));
  const day = story.firstElementChild;
  if (day?.classList.contains("day") && entries.findLast((entry) => entry.classList.contains("day"))?.textContent === day.textContent) {
    day.remove();
  }
  story.prepend(...entries);
  const next = page.getElementById("earlier");
  if (next) {
    link.href = next.getAttribute("href");
  } else {
    link.parentElement.remove();
  }
  scrollBy(0, document.documentElement.scrollHeight - height);
  entries[0]?.querySelector("a")?.focus({ preventScroll: true });
});

// ---- lists ----

async function refresh() {
  const old = part && document.querySelector(part);
  if (!old || document.hidden) {
    refresh.isDue = Boolean(old);
    return;
  }
  refresh.isDue = false;
  const isWritten = [...old.querySelectorAll("textarea, input:not([type=hidden])")].some((field) => field.value);
  if (isWritten || old.contains(document.activeElement)) {
    return; // an answer that is being written must not vanish
  }
  const url = new URL(location.href);
  url.searchParams.set("part", "1");
  url.searchParams.delete("sent");
  const answer = await fetch(url);
  const made = answer.ok && parsed(await answer.text()).querySelector(part);
  if (made) {
    old.replaceWith(document.importNode(made, true));
  }
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && refresh.isDue) {
    refresh();
  }
});

// ---- the past ----

document.getElementById("slide")?.addEventListener("change", (event) => {
  if (event.target.id === "seq") {
    document.getElementById("than").value = Math.max(1, event.target.value - 1);
    event.currentTarget.submit();
  }
});

if (address) {
  listen();
}
