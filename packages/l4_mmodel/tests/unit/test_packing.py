"""How choices are packed: each sees its prompt and itself, and nothing else."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from l4_mmodel.serving.runtimes.packing import Tokens, common_prefix, packs

IDS = st.integers(0, 9)
ITEMS = st.lists(
    st.builds(
        Tokens,
        st.lists(IDS, min_size=1, max_size=6),
        st.lists(st.lists(IDS, min_size=1, max_size=4), min_size=1, max_size=4),
    ),
    min_size=1,
    max_size=5,
)


@given(ITEMS, st.integers(0, 5), st.integers(1, 30))
def test_every_token_is_predicted_from_its_own_past(items: list[Tokens], offset: int, row: int) -> None:
    prefix = list(range(100, 100 + offset))
    seen_items = []
    for pack in packs(items, offset=offset, row=row):
        mask = pack.mask(offset)
        context = [*prefix, *pack.ids]
        positions = [*range(offset), *pack.positions]
        choices = iter(zip(pack.reads, pack.targets, strict=True))
        for number in pack.items:
            seen_items.append(number)
            for choice in items[number].choices:
                reads, targets = next(choices)
                assert targets == choice
                for at, read in enumerate(reads):
                    visible = np.flatnonzero(mask[read])
                    ordered = sorted(visible, key=lambda place: positions[place])
                    assert [context[place] for place in ordered] == [
                        *prefix,
                        *items[number].prompt,
                        *choice[:at],
                    ]
                    assert [positions[place] for place in ordered] == list(range(len(ordered)))
    assert seen_items == list(range(len(items)))


@given(st.lists(st.lists(IDS, min_size=1), min_size=2))
def test_the_shared_prefix_leaves_every_prompt_a_token(prompts: list[list[int]]) -> None:
    shared = common_prefix(prompts)
    assert len({tuple(prompt[:shared]) for prompt in prompts}) == 1
    assert all(len(prompt) > shared for prompt in prompts)
    longer = {tuple(prompt[: shared + 1]) for prompt in prompts}
    assert len(longer) > 1 or min(map(len, prompts)) == shared + 1
