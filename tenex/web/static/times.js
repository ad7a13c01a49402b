// Times in the zone of the reader: how long ago, with the exact time behind. The rules are those of `times.py`.
const AGAIN = 30_000; // ms between two looks at the clock
const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const WEEK = 7 * DAY;

const exact = new Intl.DateTimeFormat("en-GB", { dateStyle: "full", timeStyle: "long" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

function ago(moment) {
  const seconds = (Date.now() - moment) / 1000;
  if (seconds < MINUTE) {
    return "now";
  }
  for (const [end, unit, name] of [[HOUR, MINUTE, "min"], [DAY, HOUR, "h"], [WEEK, DAY, "d"]]) {
    if (seconds < end) {
      return `${Math.floor(seconds / unit)} ${name} ago`;
    }
  }
  return day.format(moment);
}

const FORMS = {
  when: ago,
  clock: new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" }).format,
  // as the server writes it: 2026-11-29 14:03
  due: new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "short" }).format,
};

function write() {
  for (const [name, form] of Object.entries(FORMS)) {
    const again = name === "when" ? "" : ":not([data-local])"; // only how long ago it was changes
    for (const time of document.querySelectorAll(`time.${name}${again}`)) {
      const moment = new Date(time.dateTime);
      const text = form(moment);
      if (time.textContent !== text) {
        time.textContent = text;
      }
      if (!time.dataset.local) {
        time.dataset.local = "1";
        time.title = exact.format(moment);
      }
    }
  }
}

let isPlanned = false;
new MutationObserver(() => {
  if (!isPlanned) {
    isPlanned = true;
    requestAnimationFrame(() => {
      isPlanned = false;
      write();
    });
  }
}).observe(document.getElementById("main"), { childList: true, subtree: true });

write();
setInterval(write, AGAIN);
