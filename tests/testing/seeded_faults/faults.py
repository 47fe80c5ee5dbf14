"""The list of the seeded faults, and the way to put one into the runtime for a test."""

import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from tests.testing.seeded_faults import batches, calls, shared, turns


@dataclass(frozen=True)
class Fault:
    """A component that replaces another one in the modules that use it.

    `probe` is the property that finds it within `examples` examples; `words` are in its error.
    """

    name: str
    parts: Mapping[str, object]
    probe: str
    words: str
    examples: int = 100

    def plant(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for place, part in self.parts.items():
            owner, _, name = place.rpartition(".")
            monkeypatch.setattr(pkgutil.resolve_name(f"seqoria_runtime.{owner}"), name, part)


BATCH = "_execution.calls.settings.Batch"
PLACES = "client._capacity.Places"
RUNNER = "_execution.calls.scheduler.CallRunner"
PLANNER = "_execution.batches.batch.Planner"

FAULTS = [
    Fault("a barrier between layers", {PLANNER: batches.LayeredPlanner}, "graphs", "could have started"),
    Fault("a lost outcome", {BATCH: batches.ForgetfulBatch}, "batches", "has no outcome"),
    Fault("an outcome published twice", {BATCH: batches.TalkativeBatch}, "batches", "answered a second time"),
    Fault("calls deduplicated by id", {BATCH: batches.DedupingBatch}, "batches", "never"),
    Fault("outcomes in the order of the calls", {BATCH: batches.OrderedBatch}, "graphs", "was over at"),
    Fault(
        "a wake-up that is lost",
        {"client._session.Scheduler": batches.ForgettingScheduler},
        "batches in any order",
        "no timer and no thread can wake",
    ),
    Fault("failures do not skip", {PLANNER: batches.HopefulPlanner}, "batches", "was not skipped"),
    Fault("one of two calls is enough", {PLANNER: batches.EagerPlanner}, "graphs", "depends on"),
    Fault("a cycle refuses the whole batch", {PLANNER: batches.PoisonedPlanner}, "batches", "cycle"),
    Fault("a timeout that counts queueing", {RUNNER: calls.ImpatientRunner}, "graphs", "timed out at"),
    Fault("an overrun that is a success", {RUNNER: calls.LenientRunner}, "batches", "past its"),
    Fault("a double execution", {RUNNER: calls.RetryingRunner}, "batches", "run a second time"),
    Fault("context that leaks", {RUNNER: calls.SharingRunner}, "batches", "context variables"),
    Fault("one slot too many", {PLACES: shared.OneMoreSlot}, "batches", "as number"),
    Fault("threads that escape the cap", {PLACES: shared.ForgettingPlaces}, "threads", "as number"),
    Fault("unfair slots", {PLACES: shared.UnfairPlaces}, "crowds", "overtook it"),
    Fault("a slot leak on cancel", {PLACES: shared.LeakingPlaces}, "cancelled batches", "slots are free"),
    Fault(
        "no slot is lent",
        {"_execution.places.places.Places._make_lendable": shared.lends_nothing},
        "nested calls",
        "no timer",
    ),
    Fault(
        "work that outlives its stream",
        {"_execution.streams.stream.HostedWork.close": shared.close_without_waiting},
        "cancelled batches",
        "still ran",
    ),
    Fault(
        "a generator that yields inside a scope",
        {"client._session.Session.call_stream": shared.yielding_call_stream},
        "consumers that fail",
        "the consumer's error came as",
    ),
    Fault(
        "an orphan call",
        {"client._history.record.paired": turns.paired_without_cancelled},
        "cancelled turns",
        "is unanswered",
    ),
    Fault(
        "a question that stays",
        {"client._history.record._remove": turns.keep_user_message},
        "cancelled turns",
        "user message",
    ),
    Fault(
        "finished calls forgotten",
        {"_execution.batches.batch.Batch.outcomes_so_far": turns.all_cancelled},
        "cancelled turns",
        "is lost",
    ),
    Fault(
        "a retry after output",
        {"client._turn.stream_with_fallback": turns.retry_at_any_time},
        "failing models",
        "was asked at",
    ),
]
