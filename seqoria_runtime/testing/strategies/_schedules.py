"""Strategies for the order in which tasks go, so that data and order are shrunk together."""

from hypothesis import strategies as st

from seqoria_runtime._base.checks import positive_int
from seqoria_runtime.testing._schedules.schedule import FixedSchedule

_TIMES = 4


def schedules(*, tasks: int = 12, steps: int = 12) -> st.SearchStrategy[FixedSchedule]:
    """Orders of tasks for `run_virtual(..., schedule=...)`; the simplest is the default one.

    Of the first `tasks` tasks, in the order in which they begin, each of the first `steps` steps may
    be passed over up to three times. What comes after that is in the default order.
    """
    positive_int("tasks", tasks)
    positive_int("steps", steps)

    return _schedules(tasks, steps)


# No `map`: Hypothesis would print a failing example as the call of the function that it maps with.
@st.composite
def _schedules(draw: st.DrawFn, tasks: int, steps: int) -> FixedSchedule:
    # Of a fixed size: lists are short most of the time, and would leave nearly every step as it is.
    drawn = draw(st.binary(min_size=tasks * steps, max_size=tasks * steps))
    delays = ((*divmod(place, steps), byte % _TIMES) for place, byte in enumerate(drawn))
    return FixedSchedule(tuple(delay for delay in delays if delay[2]))
