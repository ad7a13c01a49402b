// Keys that do what a press does; all of it can be done without them. Written text gets its letters.
const ITEMS = ".ask, .row, .stuck li, .is-message"; // what j and k go through

const inside = (item) => item?.querySelector("a, button, textarea");

function items() {
  return [...document.querySelectorAll(ITEMS)].filter((item) => item.checkVisibility() && inside(item));
}

function current() {
  return document.activeElement?.closest?.(ITEMS);
}

function go(step) {
  const all = items();
  const place = all.indexOf(current());
  const next = all[place < 0 ? (step > 0 ? 0 : all.length - 1) : place + step];
  const target = inside(next);
  if (target) {
    target.focus();
    next.scrollIntoView({ block: "nearest" });
  }
}

// The first button of that kind in what has the focus: never one of something else.
function press(value) {
  const button = current()?.querySelector(`button[name=say][value="${value}"]:enabled`);
  if (button?.checkVisibility()) {
    button.focus();
    button.form.requestSubmit(button);
  }
}

const search = () => document.querySelector("input[type=search]");

const ACTIONS = {
  "/": () => (search() ? search().focus() : location.assign(address("Conversations"))),
  j: () => go(1),
  k: () => go(-1),
  y: () => press("yes"),
  n: () => press("no"),
  c: () => location.assign(document.querySelector("a.begin").href),
  g: () => location.assign(document.querySelector("a.brand").href),
  "?": () => document.getElementById("keys").showModal(),
};

function address(title) {
  return [...document.querySelectorAll(".top nav a")].find((link) => link.textContent.startsWith(title)).href;
}

addEventListener("keydown", (event) => {
  const target = event.target;
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && target.form) {
    const form = target.form;
    if (target.tagName === "TEXTAREA") {
      event.preventDefault();
      form.requestSubmit(form.querySelector("button:not([name]), button"));
    }
    return;
  }
  const isWriting = target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
  if (isWriting || event.ctrlKey || event.metaKey || event.altKey || event.repeat || document.querySelector("dialog[open]")) {
    return;
  }
  if (Object.hasOwn(ACTIONS, event.key)) {
    event.preventDefault();
    ACTIONS[event.key]();
  }
});
