"""Whether a checkpoint is whole, by a listing alone: what is missing, and from which one to resume."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpuassay.measure.whole import Listing, told

FILES = {".metadata": 100, **{f"__{rank}_0.distcp": 1000 for rank in range(8)}}
NEEDED = {name: size for name, size in FILES.items() if size == 1000}


def test_a_whole_one_lacks_nothing() -> None:
    """With an index that can be read, or that somebody only listed."""
    assert Listing("step-500", FILES, NEEDED, 8).lacks == []
    assert told([Listing("step-500", FILES, NEEDED, 8)]) == (0, "")


def test_one_that_a_dead_node_left_names_the_last_whole_one() -> None:
    """No index, three empty files: what is wrong, and where to resume."""
    torn = {name: 0 if name[2] in "567" else size for name, size in FILES.items() if name != ".metadata"}
    count, words = told([Listing("step-1000", FILES, NEEDED, 8), Listing("step-1500", torn, None, 8)])

    assert count == 4
    assert words.startswith("step-1500 is incomplete: no .metadata, __5_0.distcp is empty (0 bytes)")
    assert words.endswith("the last whole one is step-1000")


@given(st.sampled_from(sorted(FILES)), st.integers(0, 99), st.booleans())
def test_no_file_can_be_lost_or_cut_unnoticed(name: str, size: int, gone: bool) -> None:  # noqa: FBT001
    """Whichever it is: without it, or with less of it, the checkpoint is not whole."""
    left = {key: value for key, value in FILES.items() if key != name or not gone}
    if not gone:
        left[name] = size if name != ".metadata" else 0
    assert Listing("step-500", left, NEEDED, 8).lacks


def test_a_rank_that_never_wrote_is_named_where_no_index_tells() -> None:
    """The number of ranks is known."""
    left = {name: size for name, size in FILES.items() if name not in (".metadata", "__6_0.distcp")}
    assert Listing("step-500", left, None, 8).lacks == ["no .metadata", "nothing of rank 6"]
