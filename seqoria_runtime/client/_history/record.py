"""Changes an application's history: what a turn or a single step appends, when, and takes back.

The only module that changes a history. Synchronous, and free of providers and tasks.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from seqoria_runtime.models import (
    AssistantMessage,
    ChatMessage,
    History,
    ToolCallOutcome,
    ToolCallRequest,
    ToolMessage,
    ToolMessages,
    UserMessage,
)

from .reading import HistoryReader, has_system_message, outcomes_without_a_call, unless_empty

_logger = logging.getLogger("seqoria_runtime")


class RunningBatch(Protocol):
    """The batch of a round, as far as the record needs it."""

    @property
    def begun(self) -> bool: ...

    def outcomes_so_far(self) -> list[ToolCallOutcome]: ...


@dataclass(slots=True)
class _Round:
    """A round that is not in the history yet; `finished` has all its messages once its calls are over."""

    message: AssistantMessage | None
    calls: Sequence[ToolCallRequest]
    batch: RunningBatch
    finished: ToolMessages | None = None

    def messages(self) -> list[ChatMessage]:
        pairs = self.finished or paired(self.calls, self.batch.outcomes_so_far())
        return [*unless_empty(self.message), *pairs]


class HistoryRecord:
    """What one turn, or one single step, has added to the application's history and still owes it.

    A round is in the history whole or not at all. `settle` completes, or takes back, what an ended
    turn left unfinished; after it the record changes nothing more.
    """

    def __init__(
        self,
        history: History,
        user_message: UserMessage | None,
        *,
        system_prompt: str = "",
        keep_partial: bool = False,
    ) -> None:
        self.history = history
        """The application's own list."""
        self.settled = False
        self._reader = HistoryReader(history)
        self._user_message = user_message
        self._system_prompt = system_prompt
        self._keep_partial = keep_partial
        self._answered = False
        self._round: _Round | None = None
        self._partial: list[str] = []

    @property
    def messages(self) -> list[ChatMessage]:
        """The history as it is now, for the next request to the model."""
        return self._reader.messages()

    def start(self) -> None:
        """Add the user message, after a system prompt if there is none.

        For a bad history, raise and add nothing.
        """
        for outcome in outcomes_without_a_call(self._reader.messages()):
            _logger.warning(
                "The history has an outcome for the call %r (%r), but no such call before it; it is not sent",
                outcome.tool_call_id,
                outcome.name,
            )
        if self._system_prompt and not has_system_message(self.history):
            self.history.insert(0, {"role": "system", "content": self._system_prompt})
        if self._user_message is not None:
            self.history.append(self._user_message)

    def note_text(self, text: str) -> None:
        """Remember text of the current answer, in case the turn is cut short."""
        if self._keep_partial and text:
            self._partial.append(text)

    def open_round(
        self, message: AssistantMessage | None, calls: Sequence[ToolCallRequest], batch: RunningBatch
    ) -> None:
        """Remember a round whose calls are about to run."""
        self._round = _Round(message, calls, batch)

    def finish_round(self, outcomes: Sequence[ToolCallOutcome]) -> ToolMessages:
        """Return the calls and outcomes of the open round, as `commit_round` will add them."""
        assert self._round is not None
        self._round.finished = paired(self._round.calls, outcomes)
        return self._round.finished

    def commit_round(self) -> None:
        """Add the open round, each call with its outcome so far."""
        if self._round is not None:
            self.history.extend(self._round.messages())
            self._round = None
            self._answered = True
            self._partial.clear()

    def commit_final(self, message: AssistantMessage) -> None:
        """Add the last message of the turn, and settle."""
        self.history.append(message)
        self.keep()
        self._partial.clear()
        self.settle()

    def keep(self) -> None:
        """Keep the user message: it is answered."""
        self._answered = True

    def settle(self) -> None:
        """Leave a history that every provider accepts and that says what happened."""
        if self.settled:
            return
        self.settled = True
        if self._round is not None and self._round.batch.begun:
            self.commit_round()
        elif self._partial:
            self.history.append(AssistantMessage(content="".join(self._partial), interrupted=True))
            self._answered = True
        if self._user_message is not None and not self._answered:
            # Else a retry would ask twice.
            _remove(self.history, self._user_message)


def paired(calls: Sequence[ToolCallRequest], outcomes: Sequence[ToolCallOutcome]) -> ToolMessages:
    """Return calls and outcomes in a history's order: request, outcome, request, outcome."""
    pairs: list[ToolMessage] = []
    for call, outcome in zip(calls, outcomes, strict=True):
        pairs += (call, outcome)
    return ToolMessages(pairs)


def _remove(history: History, message: UserMessage) -> None:
    # By identity: the application may have an equal message, and may have removed this one.
    for position in range(len(history) - 1, -1, -1):
        if history[position] is message:
            del history[position]
            return
