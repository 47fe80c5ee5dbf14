"""Strategies for the order in which tasks go, so that data and order are shrunk together."""

from hypothesis import strategies as st

from seqoria_runtime._checks import positive_int
from seqoria_runtime.testing._schedule import FixedSchedule

_MOST = 3


def schedules(*, tasks: int = 8, steps: int = 8) -> st.SearchStrategy[FixedSchedule]:
    """Orders of tasks for `run_virtual(..., schedule=...)`; the simplest is the default one.

    Of the first `tasks` tasks, in the order in which they begin, the first `steps` steps may each be
    passed over a few times. What comes after that is in the default order.
    """
    positive_int("tasks", tasks)
    positive_int("steps", steps)
    of_one_task = st.lists(st.integers(0, _MOST), max_size=steps)
    return st.lists(of_one_task, max_size=tasks).map(_schedule)


def _schedule(delays: list[list[int]]) -> FixedSchedule:
    return FixedSchedule(
        tuple(
            (task, step, times)
            for task, of_task in enumerate(delays)
            for step, times in enumerate(of_task)
            if times
        )
    )
