"""An MCP server with faults, over its input and output: a script without packages, so it starts in no time.

    python mcp_server.py [--tools N] [--silent] [--noise] [--state FILE] [--flood] [--leaks]
    python mcp_server.py --page FILE        has the tool `page` too, which gives the file
    python mcp_server.py --runs             has the tool `run` too, which runs the text as a shell command
    python mcp_server.py --odd              has `deep` (an answer of 100,000 levels) and `infinite` (no JSON numbers)
    python mcp_server.py --listed FILE      lists the tools of the file too, in JSON, whatever they are
    python mcp_server.py --form FILE        `order` asks with the schema of the file, in JSON

It speaks the protocol of 2025-11-25, with `--modern` that of 2026-07-28. Its tools: `echo`, `pid`, `die` (ends in the
call), `hang` (never answers), `big` (a message of 20 MB), `image`, `fail` (an error of the tool), `grow` (has one tool
more from then on; with the text `-echo` that one less), `write` (a file), `order` (asks a person how many: in the newer
protocol by its result, in the older one by a request while the call waits; with the text `again` it asks without end,
in other words each time, with `impatient` it takes its question back at the next call of a tool, and fails). With
`--tools N` it has N more. `--silent` never answers, `--noise` prints what is no JSON before answers, `--flood` sends
notifications without end once a tool is called, `--leaks` prints the variable TOKEN where it fails or ends. To the file
of `--state` each start adds a line.
"""

import argparse
import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

CAPABILITIES = {"tools": {"listChanged": True}}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}


def _tool(name: str, about: str, **hints: bool) -> dict[str, Any]:
    return {"name": name, "description": about, "inputSchema": TEXT, **({"annotations": hints} if hints else {})}


class Server:
    def __init__(self, more: int, *, modern: bool, leaks: bool = False, page: str = "", runs: bool = False) -> None:
        self.modern = modern
        self.leaks = leaks
        self.page = page
        self.listener: Any = None
        """The id of the request that listens for changes."""
        self.ordered: dict[str, tuple[Any, str]] = {}
        """By the id of a question, the call that waits for its answer, and the text of that."""
        self.asked = 0
        self.asks: dict[str, Any] = {
            "type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]
        }  # fmt: skip
        self.tools = [
            _tool("echo", "Says the text again. It is loud.", readOnlyHint=True),
            _tool("pid", "Gives the number of its process.", readOnlyHint=True),
            _tool("die", "Ends in the call."),
            _tool("hang", "Never answers."),
            _tool("big", "Sends 20 MB.", readOnlyHint=True),
            _tool("image", "Gives an image and a text."),
            _tool("fail", "Fails.", idempotentHint=True),
            _tool("grow", "Has one tool more from then on."),
            _tool("write", "Writes a file into the folder it was started in."),
            _tool("order", "Asks how many.", readOnlyHint=True),
        ]
        if page:
            self.tools.append(_tool("page", "Gives a web page.", readOnlyHint=True))
        if runs:
            self.tools.append(_tool("run", "Runs a command."))
        for number in range(more):
            about = f"Does the thing with the number {number} to one of the many objects that this server knows about."
            self.tools.append(_tool(f"thing_{number}", about))

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """The result of a request; None for none."""
        if method == "initialize":
            info = {"name": "faulty", "version": "1"}
            return {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": info}
        cached = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if self.modern else {}
        if method == "server/discover":
            return {"supportedVersions": ["2026-07-28"], "capabilities": CAPABILITIES, **cached}
        if method == "tools/list":
            return {"tools": self.tools, **cached}
        if params["name"] == "order":
            return self.order(params)  # in the newer protocol
        if params["name"] == "run":
            return self.run(params["arguments"]["text"])
        if params["name"] == "infinite":
            return {"content": [], "structuredContent": {"a": float("inf"), "b": [float("nan"), 1.5]}}
        called = self.call(params["name"], params.get("arguments") or {})
        return called and {**called, **({"resultType": "complete"} if self.modern else {})}

    def order(self, params: dict[str, Any]) -> dict[str, Any]:
        """Ask how many, and then say what was answered, and what was to be sent back with it."""
        answers = params.get("inputResponses")
        is_asking = (params.get("arguments") or {}).get("text") == "again"
        if answers and not is_asking:
            text = json.dumps([answers["q"], params.get("requestState")])
            return {"content": [{"type": "text", "text": text}], "resultType": "complete"}
        question = {"method": "elicitation/create", "params": self.form(is_asking=is_asking)}
        return {"resultType": "input_required", "inputRequests": {"q": question}, "requestState": "open"}

    def take(self, *, odd: bool, listed: str | None, form: str | None) -> None:
        """Have other tools and another form."""
        if odd:
            self.tools += [
                _tool("deep", "Answers with 100,000 levels."),
                _tool("infinite", "Answers with odd numbers."),
            ]
        if listed:
            self.tools += json.loads(Path(listed).read_text())
        if form:
            self.asks = json.loads(Path(form).read_text())

    def attends(self, message: dict[str, Any]) -> bool:
        """Do what a call by more than an answer needs, such as an order in the older protocol; whether that was all."""
        if (message.get("params") or {}).get("name") == "deep":
            nested = "[" * 100_000 + "]" * 100_000
            print(f'{{"jsonrpc": "2.0", "result": {{"content": {nested}}}, "id": {message["id"]}}}', flush=True)
            return True
        if "method" not in message:
            self.go_on(message)
            return True
        params = message.get("params") or {}
        if message["method"] == "tools/call":
            self.lose_patience()
        if params.get("name") != "order":
            return False
        self.begin_order(message["id"], (params.get("arguments") or {}).get("text", ""))
        return True

    def form(self, *, is_asking: bool) -> dict[str, Any]:
        """The question of an order."""
        self.asked += 1
        message = f"How many, for the time {self.asked}?" if is_asking else "How many?"
        return {"mode": "form", "message": message, "requestedSchema": self.asks}

    def begin_order(self, call: Any, text: str) -> None:
        """Ask how many by a request, and let the call wait."""
        params = self.form(is_asking=text == "again")
        question = f"question {self.asked}"
        self.ordered[question] = call, text
        say({"jsonrpc": "2.0", "id": question, "method": "elicitation/create", "params": params})

    def lose_patience(self) -> None:
        """End the orders that wait no longer."""
        for question in [question for question, (_, text) in self.ordered.items() if text == "impatient"]:
            self.notify("notifications/cancelled", requestId=question)
            self.end_order(question, "No one has answered.", is_error=True)

    def go_on(self, answer: dict[str, Any]) -> None:
        """Take an answer to a question."""
        call, text = self.ordered.get(answer["id"], (None, ""))
        if text == "again":
            del self.ordered[answer["id"]]
            self.begin_order(call, text)
        elif call is not None:
            self.end_order(answer["id"], json.dumps(answer.get("result") or answer["error"]))

    def end_order(self, question: str, text: str, *, is_error: bool = False) -> None:
        call, _ = self.ordered.pop(question)
        result = {"content": [{"type": "text", "text": text}], "isError": is_error}
        say({"jsonrpc": "2.0", "id": call, "result": result})

    def listen(self, id_: Any) -> None:
        """Acknowledge the request for changes, which has no answer before the end."""
        self.listener = id_
        self.notify("notifications/subscriptions/acknowledged", notifications={"toolsListChanged": True})

    def report_change(self) -> None:
        """Say that the tools have changed: in the newer protocol to who listens."""
        if not self.modern or self.listener is not None:
            self.notify("notifications/tools/list_changed")

    def notify(self, method: str, **params: Any) -> None:
        meta = {"_meta": {"io.modelcontextprotocol/subscriptionId": self.listener}} if self.modern else {}
        say({"jsonrpc": "2.0", "method": method, "params": {**params, **meta}})

    def run(self, command: str) -> dict[str, Any]:
        done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
        return {"content": [{"type": "text", "text": f"{done.returncode} {done.stdout}{done.stderr}"}]}

    def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
        text = str(arguments.get("text", ""))
        match tool:
            case "die":
                if self.leaks:
                    print(f"refused: {os.environ['TOKEN']}", file=sys.stderr, flush=True)
                os._exit(3)
            case "hang":
                return None
            case "big":
                text = "x" * 20_000_000
            case "pid":
                text = str(os.getpid())
            case "image":
                data = base64.b64encode(b"\x89PNG not really").decode()
                image = {"type": "image", "data": data, "mimeType": arguments.get("text", "image/png")}
                return {"content": [{"type": "text", "text": "a picture"}, image]}
            case "fail":
                why = f"it broke: {os.environ['TOKEN']}" if self.leaks else "it broke"
                return {"content": [{"type": "text", "text": why}], "isError": True}
            case "grow":
                if text.startswith("-"):
                    self.tools = [listed for listed in self.tools if listed["name"] != text[1:]]
                else:
                    self.tools.append(_tool("grown", "New.", readOnlyHint=True))
                self.report_change()
            case "page":
                text = Path(self.page).read_text()
            case "write":
                Path("written.txt").write_text(text)
        return {"content": [{"type": "text", "text": text}]}


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--tools", type=int, default=0)
    options.add_argument("--silent", action="store_true")
    options.add_argument("--noise", action="store_true")
    options.add_argument("--modern", action="store_true")
    options.add_argument("--flood", action="store_true")
    options.add_argument("--leaks", action="store_true")
    options.add_argument("--page", default="")
    options.add_argument("--runs", action="store_true")
    options.add_argument("--odd", action="store_true")
    options.add_argument("--listed")
    options.add_argument("--form")
    options.add_argument("--state")
    chosen = options.parse_args()
    if chosen.state:
        with Path(chosen.state).open("a") as file:
            file.write(f"{os.getpid()}\n")
    server = Server(chosen.tools, modern=chosen.modern, leaks=chosen.leaks, page=chosen.page, runs=chosen.runs)
    server.take(odd=chosen.odd, listed=chosen.listed, form=chosen.form)
    methods = {"initialize", "tools/list", "tools/call", *(["server/discover"] if chosen.modern else [])}
    for line in filter(lambda _: not chosen.silent, sys.stdin):
        message = json.loads(line)
        if "id" not in message:
            continue
        if chosen.flood and message.get("method") == "tools/call":
            while True:
                say({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "here"}})
        if chosen.modern and message.get("method") == "subscriptions/listen":
            server.listen(message["id"])
            continue
        if not chosen.modern and server.attends(message):
            continue
        if chosen.noise:
            print("Listening on nothing at all")
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        name = (message.get("params") or {}).get("name")
        if message["method"] == "tools/call" and all(tool.get("name") != name for tool in server.tools):
            say({**answer, "error": {"code": -32602, "message": f"there is no tool {name}"}})
        elif message["method"] in methods:
            result = server.answer(message["method"], message.get("params") or {})
            if result is not None:
                say({**answer, "result": result})
        else:
            say({**answer, "error": {"code": -32601, "message": "no such method"}})


if __name__ == "__main__":
    main()
