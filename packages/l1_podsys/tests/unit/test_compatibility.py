"""Published stacks are accepted; conflicts that people met are refused with a minimal set of facts."""

from __future__ import annotations

import contextlib
import time
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from l1_podsys.api import BadInput, Explanation, check_stack, solve
from l1_podsys.core.compatibility import COMPONENTS, known_good


def test_every_published_stack_fits_and_is_found_from_its_driver() -> None:
    start = time.process_time()
    for stack in known_good():
        assert check_stack(stack) == []
        solution = solve({"os": stack["os"], "driver": stack["driver"]})
        assert not isinstance(solution, Explanation)
        assert solution["cuda"] == stack["cuda"]
    assert time.process_time() - start < 1


CONFLICTS = [
    # NVIDIA/gpu-operator#544
    ({"driver": "530.41.03", "fabricmanager": "530.30.02", "cuda": "12.1"}, {"driver", "fabricmanager"}),
    # CUDA compatibility guide, table 1
    ({"driver": "535.230.02", "cuda": "13.0", "os": "ubuntu-24.04"}, {"driver", "cuda"}),
    # Blackwell has open modules only; Volta has none
    ({"gpu": "blackwell", "module": "proprietary", "driver": "580.173.02"}, {"gpu", "module"}),
    ({"gpu": "volta", "module": "open", "os": "ubuntu-22.04"}, {"gpu", "module"}),
    # Fabric Manager on a box without NVSwitch
    ({"nvswitch": "no", "fabricmanager": "580.173.02", "cuda": "13.0"}, {"nvswitch", "fabricmanager"}),
    # DMA-BUF on an old kernel, whatever the module
    ({"gpudirect": "dma-buf", "module": "open", "kernel": "5.4.0-200"}, {"gpudirect", "kernel"}),
    # a driver that does not know the GPU
    ({"gpu": "blackwell", "driver": "550.90.07", "module": "open"}, {"gpu", "driver"}),
]  # fmt: skip


@pytest.mark.parametrize(("wanted", "core"), CONFLICTS)
def test_a_conflict_is_explained_by_a_minimal_set(wanted: dict[str, str], core: set[str]) -> None:
    answer = solve(wanted)
    assert isinstance(answer, Explanation)
    assert set(answer.facts) == core
    assert answer.rules
    assert len(answer.facts) <= 4
    for size in range(len(core)):
        for names in combinations(core, size):
            assert not isinstance(solve({name: wanted[name] for name in names}), Explanation)


def test_a_solution_keeps_what_was_given_and_breaks_no_rule() -> None:
    wanted = {
        "gpu": "hopper",
        "nvswitch": "yes",
        "os": "ubuntu-24.04",
        "gpudirect": "dma-buf",
        "kernel": "6.8.0-53",
    }
    answer = solve(wanted)
    assert not isinstance(answer, Explanation)
    assert answer | wanted == answer
    assert check_stack(answer) == []
    assert answer["fabricmanager"] != "none"


def test_an_unknown_component_is_named() -> None:
    with pytest.raises(BadInput) as caught:
        solve({"divers": "1"})
    assert caught.value.field == "divers"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("driver", "中"),
        ("driver", ""),
        ("driver", "²"),
        ("driver", "9" * 5000),
        ("cuda", "thirteen"),
        ("kernel", "none"),
        ("module", "opne"),
        ("gpudirect", "on"),
        ("nvswitch", "True"),
    ],
)
def test_what_is_no_version_or_no_known_word_is_named(name: str, value: str) -> None:
    with pytest.raises(BadInput) as caught:
        solve({name: value})
    assert caught.value.field == name
    assert len(str(caught.value)) < 300


@given(st.dictionaries(st.sampled_from(sorted(COMPONENTS)), st.text(max_size=80)))
def test_any_text_is_solved_explained_or_refused(stack: dict[str, str]) -> None:
    with contextlib.suppress(BadInput):
        assert solve(stack)
