import pytest

from benchmarks.worker.dags import TIMED, Dag, Node, dag_named


def test_the_bound_is_the_longest_path_or_the_shared_work() -> None:
    chain = Dag("chain", {"a": Node(1.0), "b": Node(2.0, ("a",)), "c": Node(0.5)})
    assert chain.lower_bound(cap=16) == 3.0
    assert chain.lower_bound(cap=1) == 3.5


def test_layers_go_by_depth() -> None:
    dag = Dag("d", {"a": Node(1), "b": Node(1, ("a",)), "c": Node(1), "d": Node(1, ("a", "b"))})
    assert dag.layers() == [["a", "c"], ["b"], ["d"]]


@pytest.mark.parametrize("name", [*TIMED, "no_ops:1000"])
def test_every_dag_is_the_same_each_time_and_its_nodes_come_after_what_they_need(name: str) -> None:
    dag = dag_named(name)
    assert dag == dag_named(name)
    seen: set[str] = set()
    for node_name, node in dag.nodes.items():
        assert seen.issuperset(node.depends_on)
        seen.add(node_name)


def test_one_dag_is_wider_than_the_cap_and_the_others_have_free_slots() -> None:
    bounds = {
        name: (dag_named(name).lower_bound(), dag_named(name).lower_bound(cap=10_000)) for name in TIMED
    }
    assert [name for name, (bound, path) in bounds.items() if bound > path] == ["wide"]
