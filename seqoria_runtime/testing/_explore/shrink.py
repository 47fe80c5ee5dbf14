"""Searches for the schedule nearest to the default order under which a run still fails alike."""

from collections.abc import Callable

from seqoria_runtime.testing._schedules.schedule import FixedSchedule


def shrink(
    schedule: FixedSchedule, fails: Callable[[FixedSchedule], FixedSchedule | None], *, runs: int
) -> FixedSchedule:
    """Return a schedule with fewer and shorter delays that still fails.

    `fails` returns the delays that a failing run really had, or `None` if it does not fail, or not
    alike. It is called at most `runs` times.
    """
    search = _Search(schedule, fails, runs)
    search.attempt(FixedSchedule())
    size = max(len(search.best.delays) // 2, 1)
    while search.left:
        before = search.best
        search.leave_out(size)
        if size == 1:
            search.shorten()
            if search.best == before:
                break
        size = max(size // 2, 1)
    return search.best


class _Search:
    def __init__(
        self, best: FixedSchedule, fails: Callable[[FixedSchedule], FixedSchedule | None], left: int
    ) -> None:
        self.best = best
        self.left = left
        self._fails = fails

    def leave_out(self, size: int) -> None:
        """Leave out delays, `size` of them at a time."""
        end = len(self.best.delays)
        while self.left and end > 0:
            delays = self.best.delays
            self.attempt(FixedSchedule(delays[: max(end - size, 0)] + delays[end:]))
            end = min(end - size, len(self.best.delays))

    def shorten(self) -> None:
        """Make single delays as short as possible."""
        for place in range(len(self.best.delays)):
            shorter = 1
            while self.left and place < len(self.best.delays):
                task, step, times = self.best.delays[place]
                if shorter >= times or self._with_delay(place, (task, step, shorter)):
                    break
                shorter = max(shorter + 1, (shorter + times) // 2)

    def _with_delay(self, place: int, delay: tuple[int, int, int]) -> bool:
        delays = self.best.delays
        return self.attempt(FixedSchedule((*delays[:place], delay, *delays[place + 1 :])))

    def attempt(self, schedule: FixedSchedule) -> bool:
        if not self.left or schedule == self.best:
            return False
        self.left -= 1
        found = self._fails(schedule)
        if found is None or size_of(found) >= size_of(self.best):
            return False
        self.best = found
        return True


def size_of(schedule: FixedSchedule) -> tuple[int, int]:
    """Return how far a schedule is from the default order."""
    return len(schedule.delays), sum(times for _, _, times in schedule.delays)
