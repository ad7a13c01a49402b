#!/usr/bin/env python3
"""An ACP agent that carries out a script, without a library: a line of JSON each way. It runs in the sandbox.

The variable SCRIPT is a list of turns, in JSON; each is a list of actions `[name, value]`, the methods of `Turn`. Which
turn is next is kept in its home folder, with all prompts that it was sent; so it goes on after a kill.
"""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

Json = dict[str, Any]
HOME = Path(os.environ["HOME"])
OPTIONS = [
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "once", "name": "Once", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


class Agent:
    def __init__(self) -> None:
        self.asked = 0
        self.cancelled = False
        self.answers: dict[Any, Json] = {}
        self.servers: list[Json] = []
        self.mode = "auto"

    def read(self) -> Json:
        line = sys.stdin.readline()
        if not line:
            raise SystemExit(0)
        message: Json = json.loads(line)
        return message

    def send(self, message: Json) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    def update(self, update: Json) -> None:
        self.send({"method": "session/update", "params": {"sessionId": "s1", "update": update}})

    def wait_for(self, id_: int) -> Json:
        while id_ not in self.answers:
            self.handle(self.read())
        return self.answers.pop(id_)

    def handle(self, message: Json) -> None:
        method = message.get("method")
        if method is None:
            self.answers[message["id"]] = message
        elif method == "session/cancel":
            self.cancelled = True
        elif "id" in message:
            self.answer(message["id"], method, message["params"])

    def answer(self, id_: int, method: str, params: Json) -> None:
        if method == "initialize":
            session: Json = {"resume": {}, "list": {}}
            can = {"loadSession": False, "sessionCapabilities": session, "mcpCapabilities": {"http": True}}
            about = {"name": "scripted", "version": os.environ.get("VERSION", "1.2.3")}
            self.send({"id": id_, "result": {"protocolVersion": 1, "agentCapabilities": can, "agentInfo": about}})
        elif method in ("session/new", "session/resume"):
            self.servers = params.get("mcpServers", [])
            note("sessions", method)
            note("servers", [server["name"] for server in self.servers])
            self.send({"id": id_, "result": {"sessionId": "s1", "modes": self.modes()}})
        elif method == "session/list":
            self.send({"id": id_, "result": {"sessions": [{"sessionId": "s1", "cwd": "/"}]}})
        elif method == "session/set_mode":
            if not os.environ.get("KEEPS_MODE"):
                self.mode = params["modeId"]
            self.send({"id": id_, "result": {}})
            self.update({"sessionUpdate": "current_mode_update", "currentModeId": self.mode})
        elif method == "session/prompt":
            number = note("prompts", params["prompt"][0]["text"])
            turns = json.loads(os.environ["SCRIPT"])
            turn = Turn(self)
            for name, value in turns[min(number, len(turns)) - 1]:
                getattr(turn, name)(value)
                if self.cancelled:
                    break
            self.send({"id": id_, "result": {"stopReason": "cancelled" if self.cancelled else "end_turn"}})
        else:
            self.send({"id": id_, "error": {"code": -32601, "message": "Method not found"}})

    def modes(self) -> Json:
        return {"currentModeId": self.mode, "availableModes": [{"id": name, "name": name} for name in ("auto", "ask")]}


class Turn:
    """One prompt; its methods are the actions of a script."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    def say(self, text: str) -> None:
        content = {"type": "text", "text": text}
        self.agent.update({"sessionUpdate": "agent_message_chunk", "content": content})

    def run(self, command: str) -> None:
        """A call that runs a command without asking."""
        id_ = self._id()
        self._begin(id_, command)
        self._end(id_, command)

    def quietly(self, command: str) -> None:
        """Run a command without a word."""
        subprocess.run(["/bin/sh", "-c", command], check=False, capture_output=True)

    def ask(self, command: str) -> None:
        """A call that asks first; what the answer was is said."""
        id_ = self._id()
        self._begin(id_, command)
        self._ask(id_, command)

    def ask_later(self, asked: list[Any]) -> None:
        """The same, of a call that is reported as in progress, so many seconds before the request."""
        command, seconds = asked
        id_ = self._id()
        self._begin(id_, command)
        self.agent.update({"sessionUpdate": "tool_call_update", "toolCallId": id_, "status": "in_progress"})
        time.sleep(seconds)
        self._ask(id_, command)

    def _ask(self, id_: str, command: str) -> None:
        self.agent.asked += 1
        call = {"toolCallId": id_, "title": command, "kind": "execute", "rawInput": {"command": command}}
        params = {"sessionId": "s1", "toolCall": call, "options": OPTIONS}
        self.agent.send({"id": self.agent.asked, "method": "session/request_permission", "params": params})
        outcome = self.agent.wait_for(self.agent.asked)["result"]["outcome"]
        chosen = outcome.get("optionId", outcome["outcome"])
        note("answers", chosen)
        if chosen == "once":
            self._end(id_, command)
        else:
            self.agent.update({"sessionUpdate": "tool_call_update", "toolCallId": id_, "status": "failed"})

    def tool(self, called: list[Any]) -> None:
        """Call a tool of ours over MCP, and note what it gave."""
        name, arguments = called
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "s", "version": "1"}}
        _, session = self._post({"id": 1, "method": "initialize", "params": about}, {})
        headers = {"mcp-session-id": session, "mcp-protocol-version": "2025-06-18"} if session else {}
        self._post({"method": "notifications/initialized"}, headers)
        called_with = {"name": name, "arguments": arguments}
        text, _ = self._post({"id": 2, "method": "tools/call", "params": called_with}, headers)
        note("results", text)

    def _post(self, message: Json, more: dict[str, str]) -> tuple[str, str]:
        """Send a message to the MCP server; what it answers, and the id of the session."""
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream", **more}
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        address = os.environ.get("TOOLS") or self.agent.servers[0]["url"]
        request = urllib.request.Request(address, body, headers)
        with urllib.request.urlopen(request) as response:
            return response.read().decode(), response.headers.get("mcp-session-id", "")

    def model(self, path: str) -> None:
        """Ask the model, as OpenAI's chat completions have it, at the address of the variable MODELS."""
        body = {"model": os.environ.get("MODEL", "any"), "messages": [{"role": "user", "content": "Hello"}]}
        headers = {"content-type": "application/json", "authorization": "Bearer of-the-agent"}
        request = urllib.request.Request(os.environ["MODELS"] + path, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request) as response:
                note("models", response.read().decode())
        except urllib.error.HTTPError as error:
            note("models", f"{error.code} {error.read().decode()}")

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def die(self, status: int) -> None:
        os._exit(status)

    def _id(self) -> str:
        return f"call_{note('calls', '')}"

    def _begin(self, id_: str, command: str) -> None:
        begun = {"toolCallId": id_, "title": command, "kind": "execute", "status": "pending"}
        self.agent.update({"sessionUpdate": "tool_call", **begun, "rawInput": {"command": command}})

    def _end(self, id_: str, command: str) -> None:
        done = subprocess.run(["/bin/sh", "-c", command], check=False, capture_output=True, text=True)
        content = [{"type": "content", "content": {"type": "text", "text": done.stdout + done.stderr}}]
        status = "failed" if done.returncode else "completed"
        ended = {"toolCallId": id_, "status": status, "content": content}
        self.agent.update({"sessionUpdate": "tool_call_update", **ended})


def note(name: str, value: Any) -> int:
    """Add a line to a file of the home folder; how many it has then."""
    with (HOME / f"{name}.jsonl").open("a") as file:
        file.write(json.dumps(value) + "\n")
    return len((HOME / f"{name}.jsonl").read_text().splitlines())


if __name__ == "__main__":
    agent = Agent()
    while True:
        agent.handle(agent.read())
