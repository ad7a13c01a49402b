"""An ACP agent that does what it is given to do, right or wrong, without a library: a line of JSON each way.

Its arguments change how it begins (`HABITS`). A prompt's text is a list of actions in JSON, `[[name, value], …]`, which
it carries out in order; the names are the methods of `Prompt`. All that it receives is written to the file of `--log`.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

Json = dict[str, Any]

HABITS = {
    "silent": "does not answer `initialize`",
    "speaks-2": "answers version 2",
    "nameless": "has no agentInfo",
    "prints": "prints text on standard output between its messages",
    "cannot-resume": "has no session/resume",
    "cannot-load": "has no session/load",
    "has-list": "has session/list, with the session s1 alone",
    "accepts-any": "answers {} to session/resume and session/load of any id, and replays nothing",
    "load-fails": "answers session/load by an error",
    "needs-login": "answers session/new by `Authentication required`",
    "dies-at-new": "ends with status 7 at session/new",
    "no-http": "takes no MCP servers over HTTP",
    "ignores-mode": "answers session/set_mode, and stays in its mode",
    "clamps-mode": "takes another mode than the one that was set",
    "mute-mode": "sets the mode without saying so",
    "options": "has configuration options in place of modes",
    "replays-late": "replays a call once more after the answer to session/load",
}
MODES = ["auto", "default", "plan"]
OPTIONS = [
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "once", "name": "Once", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


class Agent:
    def __init__(self, habits: set[str], log: Path) -> None:
        unknown = habits - set(HABITS)
        if unknown:
            raise SystemExit(f"no such habit: {unknown}")
        self.habits = habits
        self.log = log
        self.mode = "auto"
        self.asked = 0
        self.answers: dict[Any, Json] = {}
        self.is_cancelled = False

    def read(self) -> Json:
        """The next message, noted; the process ends with its input."""
        line = sys.stdin.readline()
        if not line:
            raise SystemExit(0)
        message: Json = json.loads(line)
        with self.log.open("a") as file:
            file.write(line)
        return message

    def send(self, message: Json) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}))

    def write(self, line: str) -> None:
        if "prints" in self.habits:
            line = f"Warning: something is deprecated\n{line}"
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def update(self, update: Json) -> None:
        self.send({"method": "session/update", "params": {"sessionId": "s1", "update": update}})

    def ask(self, method: str, params: Json) -> int:
        self.asked += 1
        self.send({"id": self.asked, "method": method, "params": params})
        return self.asked

    def serve(self) -> None:
        while True:
            self.handle(self.read())

    def handle(self, message: Json) -> None:
        """Deal with a message that is not an answer waited for."""
        method = message.get("method")
        if method is None:
            self.answers[message["id"]] = message
        elif method == "session/cancel":
            self.is_cancelled = True
        elif method == "session/prompt":
            Prompt(self, message["id"]).run(json.loads(message["params"]["prompt"][0]["text"]))
        elif "id" in message:
            self.answer(message["id"], method, message["params"])

    def answer(self, id_: int, method: str, params: Json) -> None:
        habits = self.habits
        if method == "initialize":
            if "silent" not in habits:
                self.send({"id": id_, "result": self.hello()})
        elif method == "session/new":
            if "dies-at-new" in habits:
                sys.stderr.write("Error: no configuration was found\n")
                sys.stderr.flush()
                os._exit(7)
            if "needs-login" in habits:
                self.send({"id": id_, "error": {"code": -32000, "message": "Authentication required"}})
            else:
                self.send({"id": id_, "result": {"sessionId": "s1", **self.settings()}})
        elif method in ("session/resume", "session/load"):
            self.go_on(id_, method, params["sessionId"])
        elif method == "session/list":
            self.send({"id": id_, "result": {"sessions": [{"sessionId": "s1", "cwd": "/"}]}})
        elif method in ("session/set_mode", "session/set_config_option"):
            self.set(id_, params.get("modeId") or params["value"])
        else:
            self.send({"id": id_, "error": {"code": -32601, "message": "Method not found"}})

    def hello(self) -> Json:
        session: Json = {}
        if "cannot-resume" not in self.habits:
            session["resume"] = {}
        if "has-list" in self.habits:
            session["list"] = {}
        return {
            "protocolVersion": 2 if "speaks-2" in self.habits else 1,
            "agentCapabilities": {
                "loadSession": "cannot-load" not in self.habits,
                "sessionCapabilities": session,
                "mcpCapabilities": {"http": "no-http" not in self.habits},
            },
            **({} if "nameless" in self.habits else {"agentInfo": {"name": "faulty", "version": "1.20.3"}}),
        }

    def settings(self) -> Json:
        if "options" in self.habits:
            return {"configOptions": self.options()}
        return {"modes": {"currentModeId": self.mode, "availableModes": [{"id": mode, "name": mode} for mode in MODES]}}

    def options(self) -> list[Json]:
        models = [
            {"group": "g", "name": "g", "options": [{"value": "small", "name": "s"}, {"value": "large", "name": "l"}]}
        ]
        modes = [{"value": mode, "name": mode} for mode in MODES]
        return [
            {"id": "m", "category": "mode", "type": "select", "currentValue": self.mode, "options": modes},
            {"id": "llm", "category": "model", "type": "select", "currentValue": "small", "options": models},
        ]

    def set(self, id_: int, wanted: str) -> None:
        if "ignores-mode" not in self.habits and wanted in MODES:
            self.mode = "plan" if "clamps-mode" in self.habits else wanted
        if "options" in self.habits:
            self.send({"id": id_, "result": {"configOptions": self.options()}})
            return
        if "mute-mode" not in self.habits:
            self.update({"sessionUpdate": "current_mode_update", "currentModeId": self.mode})
        self.send({"id": id_, "result": {}})

    def go_on(self, id_: int, method: str, session: str) -> None:
        if "accepts-any" in self.habits:
            self.send({"id": id_, "result": {}})
        elif session != "s1":
            self.send(
                {"id": id_, "error": {"code": -32603, "message": "Internal error", "data": {"details": "no session"}}}
            )
        elif method == "session/resume":
            self.send({"id": id_, "result": self.settings()})
        elif "load-fails" in self.habits:
            self.send({"id": id_, "error": {"code": -32603, "message": "Internal error"}})
        else:
            self.update({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "Fix it"}})
            self.update({"sessionUpdate": "tool_call", "toolCallId": "old", "title": "make", "status": "in_progress"})
            self.update({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "It is "}})
            self.update({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "fixed."}})
            self.send({"id": id_, "result": self.settings()})
            if "replays-late" in self.habits:
                self.update({"sessionUpdate": "tool_call_update", "toolCallId": "old", "status": "completed"})


class Prompt:
    """Carries out the actions of one prompt."""

    def __init__(self, agent: Agent, id_: int) -> None:
        self._agent = agent
        self._id = id_

    def run(self, actions: list[list[Any]]) -> None:
        for name, *values in actions:
            getattr(self, name)(*values)

    def text(self, text: str) -> None:
        self._agent.update({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})

    def update(self, update: Json) -> None:
        self._agent.update(update)

    def raw(self, line: str) -> None:
        self._agent.write(line)

    def large(self, megabytes: int) -> None:
        """One update of so many MB."""
        self.text("x" * (megabytes * 1024**2))

    def flood(self, megabytes: int) -> None:
        """Updates of one MB each."""
        for _ in range(megabytes):
            self.text("x" * 1024**2)

    def begin_asking(self, call: Json, options: list[Json] | None = None) -> None:
        """Ask for permission, and do not wait."""
        params = {"sessionId": "s1", "toolCall": call, "options": OPTIONS if options is None else options}
        self._agent.ask("session/request_permission", params)

    def ask(self, call: Json, options: list[Json] | None = None) -> None:
        """Ask for permission, wait for the answer, and write it."""
        self.begin_asking(call, options)
        self.write_answer(self._agent.asked)

    def request(self, method: str, params: Json) -> None:
        """Ask the client for anything, wait for the answer, and write it."""
        self.write_answer(self._agent.ask(method, params))

    def write_answer(self, id_: int) -> None:
        """Wait for the answer to a request, and write it."""
        while id_ not in self._agent.answers:
            self._agent.handle(self._agent.read())
        answer = self._agent.answers[id_]
        self.text(json.dumps(answer.get("result") or answer.get("error")))

    def withdraw(self, id_: int) -> None:
        """Wait for no answer to a request any longer."""
        self._agent.send({"method": "$/cancel_request", "params": {"requestId": id_}})

    def until_cancelled(self) -> None:
        while not self._agent.is_cancelled:
            self._agent.handle(self._agent.read())

    def until_there(self, path: str) -> None:
        """Wait for a file."""
        while not Path(path).exists():
            time.sleep(0.01)

    def hang(self) -> None:
        """Do nothing for ever, whatever is sent."""
        while True:
            time.sleep(3600)

    def die(self, status: int) -> None:
        os._exit(status)

    def close_output(self) -> None:
        os.close(1)

    def end(self, reason: str = "end_turn", more: Json | None = None) -> None:
        self._agent.send({"id": self._id, "result": {"stopReason": reason, **(more or {})}})

    def fail(self, code: int, message: str) -> None:
        self._agent.send({"id": self._id, "error": {"code": code, "message": message}})


if __name__ == "__main__":
    log_, *habits_ = sys.argv[1:]
    Agent(set(habits_), Path(log_)).serve()
