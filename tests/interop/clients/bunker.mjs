// A remote signer (NIP-46): NDK's own backend, which holds the key it is given.
import NDK, { NDKNip46Backend, NDKPrivateKeySigner } from "@nostr-dev-kit/ndk";
import WebSocket from "ws";

import { obey } from "./lines.mjs";

globalThis.WebSocket ??= WebSocket; // node has had one of its own only since 22
const asked = [];
const clients = new Set();
let token;

await obey({
  async join({ url, secret }) {
    const signer = new NDKPrivateKeySigner(secret);
    const ndk = new NDK({ explicitRelayUrls: [url], signer, enableOutboxModel: false, autoConnectUserRelays: false });
    await ndk.connect(5000);
    const backend = new NDKNip46Backend(ndk, signer, async ({ method, pubkey }) => {
      asked.push(method);
      return method === "connect" || clients.has(pubkey);
    });
    backend.applyToken = async (pubkey, given) => {
      if (given !== token) throw new Error("this address was used already");
      token = undefined;
      clients.add(pubkey);
    };
    await backend.start();
    const pubkey = (await signer.user()).pubkey;
    // the relay answers requests in order: once this one is answered, the backend's is served
    await new Promise((onEose) => ndk.subscribe({ kinds: [24133], authors: [pubkey], limit: 1 }, {}, { onEose }));
    return { pubkey };
  },
  offer({ secret }) {
    token = secret;
  },
  asked() {
    return asked;
  },
});
