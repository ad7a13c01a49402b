// How a client here talks with the test that started it: one JSON object to a line, orders on stdin, facts on stdout.
//
//   {"order": 1, "do": "say", ...}  ->  {"done": 1, "result": ...} or {"failed": 1, "why": "..."}
//   {"heard": {...}, ...}               whenever an event comes
//
// Never: an order's meaning; each client brings its own.
import { createInterface } from "node:readline";

export function report(fact) {
  process.stdout.write(`${JSON.stringify(fact)}\n`);
}

export async function obey(orders) {
  const lines = createInterface({ input: process.stdin });
  for await (const line of lines) {
    const { order, do: name, ...given } = JSON.parse(line);
    try {
      report({ done: order, result: (await orders[name](given)) ?? null });
    } catch (fault) {
      report({ failed: order, why: String(fault?.stack ?? fault) });
    }
  }
  process.exit(0); // the test has closed stdin; sockets would keep us alive
}
