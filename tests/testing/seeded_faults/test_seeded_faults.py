"""The kit finds every seeded fault within its budget, and none in the real runtime."""

import pytest
from hypothesis import settings

from tests.testing.seeded_faults.faults import FAULTS, Fault
from tests.testing.seeded_faults.probes import PROBES, hunt


@pytest.mark.clause("C120")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_seeded_fault_is_found_within_its_budget(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    fault.plant(monkeypatch)
    found = hunt(fault.probe, fault.examples)
    assert found is not None, f"{fault.examples} examples did not show it"
    assert fault.words in str(found), found


@pytest.mark.clause("C120")
@pytest.mark.parametrize("probe", PROBES)
def test_nothing_is_found_in_the_runtime_as_it_is(probe: str) -> None:
    found = hunt(probe, settings().max_examples)
    if found is not None:
        raise found
