"""The task views of a block are those of its records, cut one by one."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import UNSET

from farm.core.canonical import canonical_lines, task_view
from farm.core.case import Case
from farm.core.taskview import digest_views

# what would look like a key if quotes inside strings were not escaped
tricky = st.sampled_from(['","response":"', ',"r', ',"targets":[', "}\n{", "\\", '\\",', "é\u2028"])
texts = st.one_of(tricky, st.text(max_size=8))
cases = st.builds(
    Case,
    id=st.text(min_size=1, max_size=5),
    prompt=texts,
    expected=st.one_of(tricky, st.text(min_size=1, max_size=8)),
    response=texts,
    category=st.one_of(st.just(UNSET), texts),
    targets=st.one_of(st.just(UNSET), st.tuples(tricky)),
)


@given(st.lists(cases, min_size=1, max_size=5))
@example([Case(id="a", prompt=',"', expected=',"r', response="")])
def test_a_block_is_cut_as_its_records_are(some: list[Case]) -> None:
    block = canonical_lines(some)
    lines = block.split(b"\n")[:-1]
    assert digest_views(block) == (b",".join(lines), task_view(lines))
