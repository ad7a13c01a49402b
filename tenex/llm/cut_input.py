"""Recognises a server that took in less than it was sent, without a word: what it answers then is no answer.

Ollama cuts what is beyond its window, which has 4,096 tokens unless it is set. All there is to see is the count of
tokens that the server reports. It is far below our estimate, which is rarely wrong by half: not for prose, code or any
script, but for long runs of one character, which are left out here. A server may also report only what its cache did
not hold: such a count is taken for a cut only where the request is larger than any that was reported whole.
"""

import re
from collections.abc import Callable
from typing import Final

from tenex.log import get_logger

from .config import ProviderConfig

FAR_BELOW: Final = 0.45
"""Of the estimate; the tokens of no common language and tokenizer are so few."""
LEAST_SENT: Final = 2_000
"""Estimated tokens: shorter requests fit into every window, and their estimates are worse."""
LEAST_REPORTED: Final = 500
"""Tokens: a server that reports fewer counts something else."""

_RUN: Final = re.compile(rb"(.)\1{3,}", re.DOTALL)

_log = get_logger(__name__)


class CutInput(Exception):
    """A server took in only so many tokens of a request."""

    def __init__(self, reported: int) -> None:
        self.reported = reported
        super().__init__(f"{reported} tokens")


class ReportedInput:
    """What one model's server reports of the size of requests."""

    def __init__(self, name: str, provider: ProviderConfig) -> None:
        self._name = name
        self._may_cut = bool(provider.base_url) or provider.protocol == "ollama"
        self._whole = 0
        """The estimated tokens of the largest request that was reported whole."""
        self._has_warned = False

    def check(self, sent: Callable[[], bytes], estimate: int, reported: int) -> None:
        """Compare the tokens that a server reports with what it was sent and with our estimate of it.

        Raises:
            CutInput: it has cut it.
        """
        if not self._may_cut or reported < LEAST_REPORTED or estimate < LEAST_SENT:
            return
        if reported >= FAR_BELOW * estimate:
            self._whole = max(self._whole, estimate)
            return
        believable = len(_RUN.sub(rb"\1\1", sent())) // 4
        if estimate <= self._whole or reported >= FAR_BELOW * believable:
            return
        if not self._has_warned:
            self._has_warned = True
            _log.warning("model.input_cut", model=self._name, sent=estimate, reported=reported, remedy=REMEDY)
        raise CutInput(reported)


REMEDY: Final = (
    "raise the window of its server: OLLAMA_CONTEXT_LENGTH or num_ctx of Ollama, --ctx-size of llama.cpp, "
    "--max-model-len of vLLM, Context Length of LM Studio"
)
