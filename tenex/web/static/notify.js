// A notification when something new waits, where the browser allows it: with https, or on this machine. While a tab of
// the front page is open; nothing is sent through servers of others.
const button = document.getElementById("notify");
const isPossible = window.isSecureContext && "Notification" in window && "serviceWorker" in navigator;

function reveal() {
  button.hidden = !isPossible || Notification.permission !== "default";
}

if (isPossible) {
  const worker = new URL("worker.js", import.meta.url);
  if (Notification.permission === "granted") {
    navigator.serviceWorker.register(worker);
  }
  button.addEventListener("click", async () => {
    if ((await Notification.requestPermission()) === "granted") {
      await navigator.serviceWorker.register(worker);
    }
    reveal();
  });
  // `live.js` says how much waits, and how much did before
  document.addEventListener("waits", async (event) => {
    const { now, before } = event.detail;
    if (!document.hidden || Notification.permission !== "granted" || now <= before) {
      return;
    }
    const registered = await navigator.serviceWorker.getRegistration(worker);
    const title = now === 1 ? "1 thing waits for you" : `${now} things wait for you`;
    await registered?.showNotification(title, { tag: "waits", data: location.href });
  });
}
reveal();
