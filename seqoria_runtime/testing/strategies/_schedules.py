"""A strategy for orders of tasks, so that data and schedule shrink together."""

from hypothesis import strategies as st

from seqoria_runtime.testing._schedule import FixedSchedule, RandomSchedule, Schedule


def schedules(
    *, max_delays: int = 6, max_tasks: int = 8, max_steps: int = 12, max_times: int = 4
) -> st.SearchStrategy[Schedule]:
    """Schedules for `run_virtual`: the default order but for at most `max_delays` delays, or any random one.

    A delay holds one of the first `max_tasks` tasks of a run before one of its first `max_steps`
    steps, for at most `max_times` turns. They shrink to the default order, and to few and short
    delays; random orders are there since they find more, and shrink only to a small seed.
    """
    steps = st.tuples(st.integers(0, max_tasks - 1), st.integers(0, max_steps - 1))
    delays = st.dictionaries(steps, st.integers(1, max_times), max_size=max_delays).map(
        lambda drawn: tuple((task, step, times) for (task, step), times in sorted(drawn.items()))
    )
    return st.builds(FixedSchedule, delays) | st.builds(RandomSchedule, st.integers(0, 2**32 - 1))
