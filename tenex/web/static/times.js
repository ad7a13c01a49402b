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

function write() {
  for (const time of document.querySelectorAll("time.when")) {
    const moment = new Date(time.dateTime);
    const text = ago(moment);
    if (time.textContent !== text) {
      time.textContent = text;
    }
    time.title = exact.format(moment);
  }
}

write();
setInterval(write, AGAIN);
document.addEventListener("renewed", write);
