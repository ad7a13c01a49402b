// A client built on nostr-tools: tells of every event what the library itself makes of it.
//
// Never: a parser of our own.
import { parse as nip10 } from "nostr-tools/nip10";
import { parse as nip22 } from "nostr-tools/nip22";
import { SimplePool, useWebSocketImplementation } from "nostr-tools/pool";
import { finalizeEvent, getPublicKey, verifyEvent } from "nostr-tools/pure";
import WebSocket from "ws";

import { obey, report } from "./lines.mjs";

useWebSocketImplementation(WebSocket);
const pool = new SimplePool();
let relay;
let secret;

function heard(event) {
  const bare = JSON.parse(JSON.stringify(event)); // a copy loses the mark "verified already"
  report({ heard: bare, verified: verifyEvent({ ...bare }), nip10: nip10(bare), nip22: nip22(bare) });
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
  async say({ kind, content, tags }) {
    const event = finalizeEvent({ kind, content, tags, created_at: Math.floor(Date.now() / 1000) }, secret);
    await Promise.all(pool.publish([relay], event));
    return event;
  },
});
