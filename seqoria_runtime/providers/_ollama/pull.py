"""One request to an Ollama server to fetch a model that it does not have."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from seqoria_runtime.models import AssistantMessage
from seqoria_runtime.models.errors import ProviderProtocolError
from seqoria_runtime.providers._answers.exchange import JSONExchange, encoded
from seqoria_runtime.providers._answers.failures import failure_of_event
from seqoria_runtime.providers._answers.lines import LineFraming
from seqoria_runtime.providers._answers.values import word
from seqoria_runtime.providers._protocol import ModelResponse, ProviderEvent


class PullAnswer:
    """The progress of a pull; an `Answer` as the decoders want it. Its text is the last status."""

    kinds = frozenset({""})
    text_key = "status"
    plain_text = ""

    def __init__(self, model: str) -> None:
        self.complete = False
        self._model = model
        self._status = ""

    def take(self, kind: str, event: dict[str, Any]) -> Sequence[ProviderEvent]:
        if event.get("error"):
            raise failure_of_event(event, model=self._model)
        self._status = word(event.get("status"))
        self.complete = self._status == "success"
        return ()

    def take_whole(self, body: dict[str, Any]) -> Sequence[ProviderEvent]:
        return self.take("", body)

    def repeat(self, text: str) -> Sequence[ProviderEvent]:
        return ()

    def expect_halves(self) -> None:
        """Nothing here is joined."""

    def end(self) -> None:
        """Only the status tells the end."""

    def finish(self) -> ModelResponse:
        if not self.complete:
            raise ProviderProtocolError(f"the pull of {self._model!r} ended at {self._status!r}")
        return AssistantMessage(content=self._status)


def pull_exchange(model: str) -> JSONExchange:
    return JSONExchange(
        path="/api/pull",
        body=encoded({"model": model, "stream": True}),
        model=model,
        answer=partial(PullAnswer, model),
        framing=LineFraming,
        stream=True,
    )
