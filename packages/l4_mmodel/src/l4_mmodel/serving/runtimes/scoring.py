"""Log-likelihoods of choices under a transformers model, the shared prompt encoded once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .caching import forward, new_cache
from .packing import Pack, Tokens, common_prefix, packs

ROW = 640
"""Tokens in a row: long enough for full matrix products, short enough for attention's square."""

WORTH_SHARING = 8
"""A prefix shorter than this many tokens is not worth a pass of its own."""

AGREEMENT = 0.05
"""How far packed and plain scores may differ for a model to be scored packed (bfloat16's noise)."""


class Scorer:
    """Scores with a causal language model `model` (transformers)."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.packed = True

    def check(self, ids: Sequence[int]) -> None:
        """Learns whether this architecture scores packed rows as it does plain ones."""
        half = max(1, len(ids) // 2)
        items = [Tokens(list(ids[:half]), [list(ids[half : half + 2]), list(ids[half + 1 : half + 4])])] * 2
        try:
            one = _flat(self.score(items))
        except (RuntimeError, TypeError, ValueError):
            self.packed = False
            return
        self.packed = False
        two = _flat(self.score(items))
        self.packed = all(abs(a - b) <= AGREEMENT * (1 + abs(b)) for a, b in zip(one, two, strict=True))

    def score(self, items: Sequence[Tokens]) -> list[list[list[float]]]:
        """For each item and choice the log-probability of each of its tokens."""
        found: list[list[list[float]]] = [[] for _ in items]
        for number, scores in self.steps(items):
            found[number] = scores
        return found

    def steps(self, items: Sequence[Tokens]) -> Iterator[tuple[int, list[list[float]]]]:
        """Yields (item's number, its scores) as they are computed, a row at a time."""
        if not self.packed:
            for number, item in enumerate(items):
                yield number, [self._plain(item.prompt, choice) for choice in item.choices]
            return
        shared = common_prefix([item.prompt for item in items])
        shared = shared if shared >= WORTH_SHARING else 0
        cache = self._encode(items[0].prompt[:shared]) if shared else None
        rest = [Tokens(item.prompt[shared:], item.choices) for item in items]
        for pack in packs(rest, offset=shared, row=ROW):
            scores = self._row(pack, cache, shared)
            at = 0
            for number in pack.items:
                count = len(items[number].choices)
                yield number, scores[at : at + count]
                at += count

    def _encode(self, prefix: list[int]) -> Any:
        import torch

        cache = new_cache(self.model)
        forward(self.model, torch.tensor([prefix]), cache, logits_to_keep=1)
        return cache

    def _row(self, pack: Pack, cache: Any, shared: int) -> list[list[float]]:
        import torch

        reads = sorted({at for positions in pack.reads for at in positions})
        where = {at: number for number, at in enumerate(reads)}
        logits = forward(
            self.model,
            torch.tensor([pack.ids]),
            cache,
            position_ids=torch.tensor([pack.positions]),
            attention_mask=torch.from_numpy(pack.mask(shared))[None, None],
            logits_to_keep=torch.tensor(reads),
        )
        if cache is not None:
            cache.crop(-len(pack.ids))
        rows = torch.log_softmax(logits[0].float(), dim=-1)
        at = torch.tensor([where[position] for positions in pack.reads for position in positions])
        token = torch.tensor([target for choice in pack.targets for target in choice])
        flat = rows[at, token].tolist()
        scores, start = [], 0
        for choice in pack.targets:
            scores.append(flat[start : start + len(choice)])
            start += len(choice)
        return scores

    def _plain(self, prompt: list[int], choice: list[int]) -> list[float]:
        import torch

        logits = forward(self.model, torch.tensor([[*prompt, *choice[:-1]]]))[0, len(prompt) - 1 :]
        rows = torch.log_softmax(logits.float(), dim=-1)
        return [float(value) for value in rows[torch.arange(len(choice)), torch.tensor(choice)]]


def _flat(scores: list[list[list[float]]]) -> list[float]:
    return [value for item in scores for choice in item for value in choice]
