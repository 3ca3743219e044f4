"""Choosing the next token as OpenAI's parameters say: temperature, top_p, penalties, bias, seed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Sampling:
    """The parameters, checked by who built them."""

    temperature: float = 1.0
    top_p: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: dict[int, float] = field(default_factory=dict)
    seed: int | None = None


class Sampler:
    """Draws the tokens of one sequence."""

    def __init__(self, sampling: Sampling, number: int) -> None:
        import torch

        self.sampling = sampling
        self.counts: Counter[int] = Counter()
        self.generator = torch.Generator()
        if sampling.seed is None:
            self.generator.seed()
        else:
            self.generator.manual_seed((sampling.seed + number * 1_000_003) % 2**63)

    def draw(self, logits: Any) -> int:
        """The next token for `logits` (float32, one row)."""
        import torch

        logits = self._adjust(logits)
        if self.sampling.temperature <= 0:
            token = int(torch.argmax(logits))
        else:
            chances = torch.softmax(logits / self.sampling.temperature, dim=-1)
            token = self._draw_from(chances)
        self.counts[token] += 1
        return token

    def _adjust(self, logits: Any) -> Any:
        sampling = self.sampling
        penalised = sampling.presence_penalty or sampling.frequency_penalty
        if not sampling.logit_bias and not (penalised and self.counts):
            return logits
        logits = logits.clone()
        for token, count in self.counts.items() if penalised else ():
            logits[token] -= sampling.presence_penalty + sampling.frequency_penalty * count
        for token, bias in sampling.logit_bias.items():
            if 0 <= token < logits.shape[-1]:
                logits[token] += bias
        return logits

    def _draw_from(self, chances: Any) -> int:
        import torch

        if self.sampling.top_p >= 1:
            return int(torch.multinomial(chances, 1, generator=self.generator))
        ordered, tokens = torch.sort(chances, descending=True)
        before = torch.cumsum(ordered, dim=-1) - ordered
        ordered[before >= self.sampling.top_p] = 0
        return int(tokens[torch.multinomial(ordered, 1, generator=self.generator)])
