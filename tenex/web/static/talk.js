// A conversation: what happens while its page is open, in the places that `talk.py` gives it; and what is loaded when
// somebody opens it. Without this file everything can be read as it was when the page was loaded.
const MOST = 600; // messages and pieces of work that stay on a page which is left open
const AT_ONCE = 100; // those that leave it together
const NEAR = 160; // pixels from the end at which a reader follows what is new
const WIDE = matchMedia("(min-width: 75rem)"); // as in talk.css

// HTML in these is made by our server, which escapes every text of others.
export function parsed(html) {
  return new DOMParser().parseFromString(html, "text/html");
}

const story = document.getElementById("story");

// ---- what is new ----

export function append(html) {
  const isAtEnd = scrollY >= end() - NEAR;
  story.querySelector(":scope > .empty")?.remove();
  describe(html); // the work that this message ends
  for (const entry of parsed(`<ol>${html}</ol>`).querySelectorAll("body > ol > li")) {
    place(document.importNode(entry, true));
  }
  if (isAtEnd) {
    toEnd();
    shorten();
  }
}

function place(entry) {
  if (!entry.classList.contains("node")) {
    entry.classList.add("new");
    story.append(entry);
    return;
  }
  const begun = entry.dataset.node && document.getElementById(`s${entry.dataset.node}`);
  if (begun) {
    renew(begun, entry);
    return;
  }
  const work = newestWork();
  const under = (entry.dataset.under ?? "").split(" ").map((seq) => document.getElementById(`s${seq}`));
  const parent = under.find((each) => each && work.contains(each));
  parts(parent ?? work).append(entry);
  if (parent?.classList.contains("role-turn")) {
    parts(parent).classList.toggle("lanes", parts(parent).querySelectorAll(":scope > .role-run").length > 1);
  }
  open(entry);
}

// What a run or a turn shows at its end takes the place of what it showed at its beginning.
function renew(begun, entry) {
  begun.className = entry.className;
  const list = begun.querySelector(":scope > ol");
  for (const old of begun.querySelectorAll(":scope > :not(ol, .links)")) {
    old.remove();
  }
  const [line, ...others] = entry.children;
  begun.prepend(line);
  for (const other of others) {
    begun.insertBefore(other, list);
  }
  open(begun);
}

function open(entry) {
  if (entry.classList.contains("is-failed")) {
    entry.closest(".work > details").open = true;
  }
}

function newestWork() {
  const last = story.lastElementChild;
  if (last?.classList.contains("work")) {
    return last;
  }
  const work = document.createElement("li");
  const details = document.createElement("details");
  const list = document.createElement("ol");
  work.className = "work new";
  list.className = "nodes";
  details.append(document.createElement("summary"), list);
  work.append(details);
  story.append(work);
  return work;
}

function parts(parent) {
  let list = parent.querySelector(":scope > ol, :scope > details > ol");
  if (!list) {
    list = document.createElement("ol");
    list.className = "nodes";
    parent.append(list);
  }
  return list;
}

export function describe(html) {
  const line = parsed(html).getElementById("work-line");
  const last = story.lastElementChild;
  if (line && last?.classList.contains("work")) {
    last.querySelector("summary").replaceChildren(...[...line.childNodes].map((each) => document.importNode(each, true)));
  }
}

function shorten() {
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

// ---- the newest is in view ----

// The end of the conversation, with what is to be answered at the end of the window; the foot of the page is below it.
function end() {
  return document.getElementById("main").getBoundingClientRect().bottom + scrollY - innerHeight;
}

function toEnd() {
  scrollTo({ top: end(), behavior: "instant" });
}

if (story && document.body.dataset.stream && !location.hash && !location.search) {
  toEnd();
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
  const height = document.documentElement.scrollHeight;
  const items = [...page.querySelectorAll("#story > li")].map((item) => document.importNode(item, true));
  const day = story.firstElementChild;
  if (day?.classList.contains("day") && items.findLast((item) => item.classList.contains("day"))?.textContent === day.textContent) {
    day.remove();
  }
  story.prepend(...items);
  const next = page.getElementById("earlier");
  if (next) {
    link.href = next.getAttribute("href");
  } else {
    link.parentElement.remove();
  }
  scrollBy({ top: document.documentElement.scrollHeight - height, behavior: "instant" });
  items[0]?.querySelector("a, summary")?.focus({ preventScroll: true });
});

// ---- arguments and results, when they are opened ----

document.addEventListener(
  "toggle",
  async (event) => {
    const details = event.target;
    const address = details.open && details.dataset?.src;
    if (!address) {
      return;
    }
    delete details.dataset.src;
    const answer = await fetch(`${address}?part=1`);
    const texts = answer.ok && parsed(await answer.text()).getElementById("texts");
    if (texts) {
      details.replaceChildren(details.querySelector("summary"), document.importNode(texts, true));
      texts.removeAttribute("id");
      details.querySelector("#texts")?.removeAttribute("id");
    }
  },
  true,
);

// ---- the panel beside it, where there is room ----

const side = document.getElementById("side");

export async function look() {
  if (!side || !WIDE.matches || document.hidden) {
    return;
  }
  const answer = await fetch(side.dataset.src);
  const made = answer.ok && parsed(await answer.text()).getElementById("time");
  if (made) {
    made.removeAttribute("id");
    side.replaceChildren(document.importNode(made, true));
  }
}

WIDE.addEventListener("change", look);
look();

// ---- what a bar says, by pointer and touch: the first touch says it, the second follows it ----

function say(event) {
  const bar = event.target.closest?.(".timeline a");
  const about = bar?.closest(".drawn")?.querySelector(".about");
  const text = bar?.getAttribute("aria-label");
  if (!about || about.textContent === text) {
    return false;
  }
  about.textContent = text;
  return true;
}

let wasNew = false;
document.addEventListener("pointerover", (event) => {
  wasNew = say(event);
});
document.addEventListener(
  "click",
  (event) => {
    if (event.pointerType === "touch" && wasNew && event.target.closest?.(".timeline a")) {
      event.preventDefault();
    }
    wasNew = false;
  },
  true,
);
