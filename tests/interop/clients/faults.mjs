// The libraries in JavaScript, for the table of faults (tests/interop/table.py): each hands on what it receives, and
// publishes what it is given. The first argument names one: `ndk`, `tools`, or `tools+`, which is nostr-tools with all
// that it offers against faults.
//
// Never: code of our own between a library and a relay.
import WebSocket from "ws";

import { obey, report } from "./lines.mjs";

globalThis.WebSocket ??= WebSocket; // node has had one of its own only since 22

async function ndk() {
  const { default: NDK, NDKEvent, NDKPrivateKeySigner, NDKRelayAuthPolicies } = await import("@nostr-dev-kit/ndk");
  let client;
  return {
    async join({ urls, secret }) {
      const signer = new NDKPrivateKeySigner(secret);
      client = new NDK({ explicitRelayUrls: urls, signer, enableOutboxModel: false, autoConnectUserRelays: false });
      client.relayAuthDefaultPolicy = NDKRelayAuthPolicies.signIn({ ndk: client });
      await client.connect(5000);
    },
    listen({ filter }) {
      const onEvent = (event) => report({ heard: event.rawEvent() });
      client.subscribe(filter, { closeOnEose: false, groupable: false }, { onEvent });
    },
    async say({ event }) {
      await new NDKEvent(client, event).publish();
    },
  };
}

async function tools(isRobust) {
  const { SimplePool, useWebSocketImplementation } = await import("nostr-tools/pool");
  const { finalizeEvent } = await import("nostr-tools/pure");
  useWebSocketImplementation(WebSocket);
  let options = {};
  let pool;
  let relays;
  return {
    async join({ urls, secret }) {
      const key = Uint8Array.from(Buffer.from(secret, "hex"));
      const onauth = async (event) => finalizeEvent(event, key);
      options = isRobust ? { onauth } : {};
      const against = { enablePing: true, enableReconnect: true, automaticallyAuth: () => onauth };
      pool = isRobust ? new SimplePool(against) : new SimplePool();
      relays = urls;
      await Promise.all(urls.map((url) => pool.ensureRelay(url)));
    },
    listen({ filter }) {
      pool.subscribe(relays, filter, { ...options, onevent: (event) => report({ heard: event }) });
    },
    async say({ event }) {
      await Promise.all(pool.publish(relays, event, options));
    },
  };
}

// what a library throws outside of a call is no reason to end: a program built on it would catch it, too
process.on("unhandledRejection", (fault) => process.stderr.write(`${fault}\n`));
process.on("uncaughtException", (fault) => process.stderr.write(`${fault}\n`));

const made = { ndk, tools: () => tools(false), "tools+": () => tools(true) };
await obey(await made[process.argv[2]]());
