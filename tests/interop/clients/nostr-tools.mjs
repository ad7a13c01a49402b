// A client built on nostr-tools: tells of every event what the library itself makes of it.
//
// Never: a parser of our own.
import * as nip04 from "nostr-tools/nip04";
import { parse as nip10 } from "nostr-tools/nip10";
import * as nip17 from "nostr-tools/nip17";
import { parse as nip22 } from "nostr-tools/nip22";
import * as nip59 from "nostr-tools/nip59";
import { SimplePool, useWebSocketImplementation } from "nostr-tools/pool";
import { finalizeEvent, getPublicKey, verifyEvent } from "nostr-tools/pure";
import WebSocket from "ws";

import { obey, report } from "./lines.mjs";

useWebSocketImplementation(WebSocket);
const pool = new SimplePool();
let relay;
let secret;

function opened(event) {
  if (event.kind === 1059) return nip17.unwrapEvent(event, secret);
  return event.kind === 4 ? { ...event, content: nip04.decrypt(secret, event.pubkey, event.content) } : null;
}

function heard(event) {
  const bare = JSON.parse(JSON.stringify(event)); // a copy loses the mark "verified already"
  const isOurs = bare.pubkey === getPublicKey(secret);
  report({
    heard: bare,
    verified: verifyEvent({ ...bare }),
    nip10: nip10(bare),
    nip22: nip22(bare),
    opened: isOurs ? null : opened(bare),
  });
}

async function publish(event) {
  await Promise.all(pool.publish([relay], event));
  return event;
}

await obey({
  async join(given) {
    relay = given.url;
    secret = Uint8Array.from(Buffer.from(given.secret, "hex"));
    await pool.ensureRelay(relay);
    return { pubkey: getPublicKey(secret) };
  },
  listen({ filter }) {
    return new Promise((oneose) => {
      pool.subscribe([relay], filter, { onevent: heard, oneose });
    });
  },
  say({ kind, content, tags }) {
    return publish(finalizeEvent({ kind, content, tags, created_at: Math.floor(Date.now() / 1000) }, secret));
  },
  async write_wrapped({ kind, to, content, tags }) {
    const rumor = nip59.createRumor({ kind, content, tags: [["p", to], ...tags] }, secret);
    await publish(nip59.createWrap(nip59.createSeal(rumor, secret, to), to));
    return rumor;
  },
  write_to({ kind, to, content }) {
    if (kind === 1059) return publish(nip17.wrapEvent(secret, { publicKey: to }, content));
    const event = { kind, content: nip04.encrypt(secret, to, content), tags: [["p", to]] };
    return publish(finalizeEvent({ ...event, created_at: Math.floor(Date.now() / 1000) }, secret));
  },
});
