"""Calling a transformers model with a key-value cache, whichever name its version gives the argument."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any


def new_cache(model: Any) -> Any:
    """An empty cache."""
    from transformers import DynamicCache

    return DynamicCache(config=model.config)


def forward(model: Any, ids: Any, cache: Any = None, **arguments: Any) -> Any:
    """Logits of the model for `ids` [batch, tokens]; with a cache, what is in it comes before."""
    import torch

    if cache is not None:
        arguments[_cache_name(type(model).forward)] = cache
    with torch.inference_mode():
        return model(input_ids=ids, use_cache=cache is not None, **arguments).logits


@functools.lru_cache(maxsize=8)
def _cache_name(method: Callable[..., Any]) -> str:
    return "cache" if "cache" in inspect.signature(method).parameters else "past_key_values"
