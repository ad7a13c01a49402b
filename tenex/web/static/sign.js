// Answers that a key in this browser signs (NIP-07), where the page has none: our server drafts, the extension signs.
const LATE = 1000; // ms in which an extension may still make itself known

function reveal() {
  if (window.nostr) {
    for (const part of document.querySelectorAll(".signed[hidden]")) {
      part.hidden = false;
    }
  }
}

async function post(address, fields) {
  const answer = await fetch(address, { method: "POST", body: new URLSearchParams(fields) });
  if (answer.ok) {
    return answer.json();
  }
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  throw new Error(page.querySelector(".notice.bad")?.textContent ?? `It was refused (${answer.status}).`);
}

function complain(form, text) {
  form.parentElement.querySelector(":scope > .notice")?.remove();
  const note = document.createElement("p");
  note.className = "notice bad";
  note.setAttribute("role", "alert");
  note.textContent = text;
  form.after(note);
}

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.closest(".signed")) {
    return;
  }
  event.preventDefault();
  const fields = new FormData(form, event.submitter);
  try {
    fields.set("pubkey", await window.nostr.getPublicKey());
    const draft = await post(form.getAttribute("action").replace("/reply/", "/draft/"), fields);
    const events = [];
    for (const unsigned of draft.events) {
      events.push(await window.nostr.signEvent(unsigned));
    }
    const sent = await post(draft.to, { events: JSON.stringify(events) });
    location.assign(sent.to);
  } catch (fault) {
    complain(form, `${fault?.message ?? fault} Load the page to try again.`);
  }
});

document.addEventListener("asks", reveal);
reveal();
setTimeout(reveal, LATE);
