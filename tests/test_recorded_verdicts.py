"""The real suite on every recorded cluster: exactly the verdicts of its description, for the right reason."""

from __future__ import annotations

import re

import pytest

from gpuassay.report.results import is_red
from recorded import describe, faulty, healthy
from recorded.judge import judge_named


@pytest.mark.parametrize("name", [*healthy(), *faulty()])
def test_a_cluster_gives_exactly_its_verdicts(name: str) -> None:
    """Each check finds what the description says and none finds more; what differs says where and why.

    A run is red for fail and error only: what cannot be seen from this seat, and what only warns, leaves a
    pipeline green.
    """
    description = describe(name)
    judged = judge_named(name)
    assert judged.verdicts == description.expected
    said = "\n".join(judged.message(check) for check in sorted(description.changed))
    assert [says for says in description.says if not re.search(says, said, re.IGNORECASE)] == [], said
    assert is_red(judged.results) is (not {"fail", "error"}.isdisjoint(description.expected.values()))
