// The token is behind `#`, which no browser sends anywhere: it is posted once, and leaves the address and the history.
const token = location.hash.slice(1);
if (token) {
  history.replaceState(null, "", location.pathname);
  document.getElementById("token").value = token;
  document.getElementById("login").submit();
}

// An owner's key in this browser (NIP-07) signs a login for this page alone (NIP-98).
const LATE = 1000; // ms in which an extension may still make itself known
const form = document.getElementById("with-key");

function reveal() {
  form.hidden = !window.nostr;
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const fault = document.getElementById("key-fault");
  fault.hidden = true;
  try {
    const url = new URL(form.getAttribute("action"), location.origin).href;
    const tags = [["u", url], ["method", "POST"]];
    const signed = await window.nostr.signEvent({ kind: 27235, created_at: Math.floor(Date.now() / 1000), tags, content: "" });
    const headers = { authorization: `Nostr ${btoa(JSON.stringify(signed))}` };
    const answer = await fetch(url, { method: "POST", headers });
    const said = await answer.json();
    if (!answer.ok) {
      throw new Error(said.error);
    }
    location.assign(said.to);
  } catch (problem) {
    fault.textContent = problem?.message ?? String(problem);
    fault.hidden = false;
  }
});

reveal();
setTimeout(reveal, LATE);
