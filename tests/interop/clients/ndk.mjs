// A client built on NDK: what it says in a thread it makes with NDK's own reply().
//
// Never: tags of our own in a reply.
import NDK, { NDKEvent, NDKPrivateKeySigner } from "@nostr-dev-kit/ndk";
import WebSocket from "ws";

import { obey, report } from "./lines.mjs";

globalThis.WebSocket ??= WebSocket; // node has had one of its own only since 22
const known = new Map();
let ndk;

await obey({
  async join({ url, secret }) {
    const signer = new NDKPrivateKeySigner(secret);
    // what goes beyond the one relay (other people's relay lists) would leave this machine
    ndk = new NDK({ explicitRelayUrls: [url], signer, enableOutboxModel: false, autoConnectUserRelays: false });
    await ndk.connect(5000);
    return { pubkey: (await signer.user()).pubkey };
  },
  listen({ filter }) {
    return new Promise((onEose) => {
      const onEvent = (event) => {
        known.set(event.id, event);
        report({ heard: event.rawEvent(), verified: event.verifySignature(false) });
      };
      ndk.subscribe(filter, { closeOnEose: false, groupable: false }, { onEvent, onEose });
    });
  },
  async say({ kind, content, tags }) {
    return publish(new NDKEvent(ndk, { kind, content, tags }));
  },
  async reply({ to, content, comment = false }) {
    const reply = known.get(to).reply(comment); // true: a comment (NIP-22) also on a note
    reply.content = content;
    return publish(reply);
  },
});

async function publish(event) {
  const relays = await event.publish();
  if (relays.size !== 1) throw new Error(`${relays.size} relays took it`);
  known.set(event.id, event);
  return event.rawEvent();
}
