"""Strategies for the order of tasks, so that data and order shrink together."""

from hypothesis import strategies as st

from seqoria_runtime._base.checks import positive_int
from seqoria_runtime.testing._schedules.schedule import FixedSchedule

_TIMES = 4


def schedules(*, tasks: int = 12, steps: int = 12) -> st.SearchStrategy[FixedSchedule]:
    """Orders of tasks for `run_virtual(..., schedule=...)`; the simplest is the default order.

    Each of the first `steps` steps of the first `tasks` tasks to start may be passed over up to three
    times. Everything after that is in the default order.
    """
    positive_int("tasks", tasks)
    positive_int("steps", steps)

    return _schedules(tasks, steps)


# Not `map`: Hypothesis would print a failing example as a call of the mapped function.
@st.composite
def _schedules(draw: st.DrawFn, tasks: int, steps: int) -> FixedSchedule:
    # Of a fixed size: lists are mostly short, and would leave nearly every step as it is.
    drawn = draw(st.binary(min_size=tasks * steps, max_size=tasks * steps))
    delays = ((*divmod(place, steps), byte % _TIMES) for place, byte in enumerate(drawn))
    return FixedSchedule(tuple(delay for delay in delays if delay[2]))
