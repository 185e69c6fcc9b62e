from hypothesis import given
from hypothesis import strategies as st

from longpole_server.analysis.intervals import Node, clip, length, share_out, union

POINTS = st.integers(0, 50)


def test_clip():
    assert clip((1, 5), (2, 9)) == (2, 5)
    assert clip((1, 2), (2, 9)) is None


def test_union_merges_touching_intervals():
    assert union([(5, 6), (1, 2), (2, 3), (4, 4)]) == [(1, 3), (5, 6)]


@given(st.lists(st.tuples(POINTS, POINTS)))
def test_union_is_what_counting_says(pairs: list[tuple[int, int]]):
    intervals = [(min(pair), max(pair)) for pair in pairs]
    covered = {point for start, end in intervals for point in range(start, end)}
    assert length(union(intervals)) == len(covered)


@given(st.lists(st.tuples(st.sampled_from("abc"), POINTS, POINTS), max_size=8), POINTS, POINTS)
def test_every_covered_moment_has_one_owner(rows: list[tuple[str, int, int]], low: int, high: int):
    bounds = (min(low, high), max(low, high))
    nodes = [Node(stage, min(a, b), max(a, b)) for stage, a, b in rows]
    ownership = share_out(nodes, bounds)
    clipped = [part for node in nodes if (part := clip((node.start, node.end), bounds))]
    assert sum(ownership.owned.values()) == length(union(clipped))
    for moment in range(*bounds):
        running = [node for node in nodes if node.start <= moment < node.end]
        if len({node.stage for node in running}) == 1:
            assert ownership.owned[running[0].stage] > 0
