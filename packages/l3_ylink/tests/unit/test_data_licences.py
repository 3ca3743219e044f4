"""Licences put together: what SPDX expressions ask for, by the licences' own texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from l3_ylink.datakit.card.licences import (
    ATTRIBUTION,
    FAMILIES,
    NO_CHANGE,
    NO_COMMERCE,
    SHARE_ALIKE,
    UNKNOWN,
    conditions,
    hub_licence,
    roll_up,
)


@pytest.mark.parametrize(
    ("expression", "asks"),
    [
        ("CC0-1.0", set()),
        ("Apache-2.0", {ATTRIBUTION}),
        ("GPL-2.0-or-later", {ATTRIBUTION, SHARE_ALIKE}),
        ("CC-BY-SA-3.0", {ATTRIBUTION, SHARE_ALIKE}),
        ("CC-BY-NC-ND-4.0", {ATTRIBUTION, NO_COMMERCE, NO_CHANGE}),
        ("GPL-2.0-or-later OR CC0-1.0", set()),  # the reader may choose
        ("MIT AND CC-BY-SA-4.0", {ATTRIBUTION, SHARE_ALIKE}),
        ("MIT AND (GPL-3.0-only OR Apache-2.0)", {ATTRIBUTION}),
        ("Apache-2.0 WITH LLVM-exception", {ATTRIBUTION}),
        ("whatever it says", {UNKNOWN}),
        ("(MIT", {UNKNOWN}),
        ("", {UNKNOWN}),
    ],
)
def test_an_expression_asks_for_what_its_licences_ask_for(expression: str, asks: set[str]) -> None:
    assert conditions(expression) == asks


def test_the_roll_up_is_the_union_and_warns_of_what_does_not_go_together() -> None:
    found = roll_up(["CC-BY-SA-3.0", "GPL-2.0-only", "MIT", "MIT", "CC-BY-ND-4.0"])
    assert found.licences == ["CC-BY-ND-4.0", "CC-BY-SA-3.0", "GPL-2.0-only", "MIT"]
    assert found.conditions == [ATTRIBUTION, SHARE_ALIKE, NO_CHANGE]
    assert any("forbids derivatives" in warning for warning in found.warnings)
    assert any("CC-BY-SA-3.0, GPL-2.0-only: share-alike" in warning for warning in found.warnings)


def test_the_hub_has_its_own_names() -> None:
    names = hub_licence(["GPL-2.0-or-later OR CC-BY-SA-3.0", "GFDL-1.3-or-later", "PSF-2.0"])
    assert names == ["cc-by-sa-3.0", "gfdl", "gpl-2.0", "other"]


@given(st.lists(st.sampled_from([f"{name}1.0" for name in FAMILIES]), min_size=1, max_size=4))
def test_and_asks_for_more_and_or_for_less(licences: list[str]) -> None:
    each = [conditions(licence) for licence in licences]
    assert conditions(" AND ".join(licences)) == frozenset().union(*each)
    assert conditions(" OR ".join(licences)) in each
