"""The seven phases run in a Python process, without a daemon."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tenex.core.errors import ModelUnavailable, StoreLocked, UsageError
from tenex.core.messages import ModelRequest, ModelStep
from tenex.core.phases import Phase
from tenex.llm.scripted import OfflineModel
from tenex.operations.phase_run import PhasesResult, run_phases
from tenex.store.lock import FolderLock
from tenex.workflows.kit.loading import load_script
from tests.workflows.mission_kit import documented

REQUEST = "Create hello.py that prints hello"


def led(data: Path, message: str | None, **given: Any) -> PhasesResult:
    running = run_phases(message, data=data, workspace=data / "work", **given)
    return asyncio.run(asyncio.wait_for(running, 60))


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, PhasesResult]:
    data = tmp_path_factory.mktemp("project")
    return data, led(data, REQUEST, thread="hello")


def test_a_request_goes_through_the_phases_to_its_end(first: tuple[Path, PhasesResult]) -> None:
    data, result = first
    assert result.status == "ended"
    assert [change.to for change in result.transitions][:3] == [Phase.EXECUTE, Phase.VERIFICATION, Phase.CHORES]
    assert (data / "work/hello.py").read_text().strip() == 'print("hello")'
    assert (result.messages[0].speaker, result.messages[0].text) == ("person", REQUEST)
    assert result.messages[1].speaker == "executor"
    assert "hello.py" in result.final_output


def test_a_conversation_is_continued_by_its_name(first: tuple[Path, PhasesResult]) -> None:
    data, result = first
    again = led(data, "Create bye.py that prints bye", thread="hello")
    assert again.conversation.id == result.conversation.id
    assert again.conversation.cycle.number == 2
    assert (data / "work/bye.py").exists()
    assert [message.speaker for message in again.messages].count("person") == 1


def test_nothing_asked_and_nothing_open_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Nothing was asked"):
        led(tmp_path, None)


def test_a_folder_that_is_in_use_is_refused(tmp_path: Path) -> None:
    with FolderLock(tmp_path / "conversations"), pytest.raises(StoreLocked):
        led(tmp_path, REQUEST)


class Away:
    """A model that cannot be reached at first."""

    def __init__(self) -> None:
        self.is_away = True
        self._model = OfflineModel()

    async def step(self, request: ModelRequest, on_text: Any = None) -> ModelStep:
        if self.is_away and request.purpose == "work":
            raise ModelUnavailable("the key is refused", needs_operator=True)
        return await self._model.step(request)


def test_a_run_whose_model_was_away_goes_on_when_it_is_run_again(tmp_path: Path) -> None:
    model = Away()
    with pytest.raises(ModelUnavailable, match="the key is refused"):
        led(tmp_path, REQUEST, model=model, thread="t")
    model.is_away = False
    led(tmp_path, None, model=model, thread="t")
    assert (tmp_path / "work/hello.py").exists()


def test_what_complete_may_be_given_is_narrowed_by_the_phase(tmp_path: Path) -> None:
    """A verdict and its findings are for verification; what is beside an answer is bounded."""
    possible: dict[str, Draft202012Validator] = {}
    offline = OfflineModel()

    class Noting:
        async def step(self, request: ModelRequest, on_text: Any = None) -> ModelStep:
            for spec in request.tools:
                if spec.name == "complete":
                    assert spec.possible is not None
                    possible[request.phase] = Draft202012Validator(spec.possible)
            return await offline.step(request)

    led(tmp_path, REQUEST, model=Noting())
    verdict = {"response": "It works.", "verdict": "verified", "asked": [{"what": "a program", "result": "met"}]}
    verifying = possible["verification"]
    assert verifying.is_valid(verdict)
    wrong: list[dict[str, Any]] = [
        {"response": "It works."},
        {**verdict, "verdict": "done"},
        {**verdict, "response": "x" * 2_001},
        {**verdict, "asked": [{"what": "x" * 601, "result": "met"}]},
        {**verdict, "asked": verdict["asked"] * 21},  # type: ignore[operator]
    ]
    assert [verifying.is_valid(arguments) for arguments in wrong] == [False] * 5
    executing = possible["execute"]
    assert "verdict" not in str(executing.schema)
    assert executing.is_valid({"response": "x" * 20_000})
    assert not executing.is_valid({"response": "x", "summary": "x" * 601})


def test_the_documents_example_runs(tmp_path: Path) -> None:
    path = tmp_path / "example.py"
    path.write_text(documented("Has the project's agents"))
    example = load_script(path, "phases_example")
    assert asyncio.run(example.main(tmp_path / "project", REQUEST)) == "ended"
