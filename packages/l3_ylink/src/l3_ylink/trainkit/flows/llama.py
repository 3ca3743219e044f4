"""A Llama-style transformer in one file: RMSNorm, RoPE, SwiGLU, grouped-query attention.

Parameters carry the names of Hugging Face's `LlamaForCausalLM`, so that a saved state loads there
as it is (Touvron et al., arXiv 2302.13971; grouped queries: Ainslie et al., arXiv 2305.13245).
"""

# mypy: disallow-subclassing-any=false
from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812 (the field's habit)
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from l3_ylink.documents import ModelShape

ROPE_THETA = 10_000.0
NORM_EPS = 1e-5


class Attention(nn.Module):
    """Causal self-attention; `kv_heads` key/value heads are shared by the query heads."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.heads, self.kv_heads = shape.heads, shape.kv_heads
        self.head_dim = shape.hidden // shape.heads
        kv_width = shape.kv_heads * self.head_dim
        self.q_proj = nn.Linear(shape.hidden, shape.hidden, bias=False)
        self.k_proj = nn.Linear(shape.hidden, kv_width, bias=False)
        self.v_proj = nn.Linear(shape.hidden, kv_width, bias=False)
        self.o_proj = nn.Linear(shape.hidden, shape.hidden, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """x: [batch, sequence, hidden] -> the same shape."""
        batch, sequence, hidden = x.shape

        def by_head(y: Tensor) -> Tensor:
            return y.view(batch, sequence, -1, self.head_dim).transpose(1, 2)

        q = rotate(by_head(self.q_proj(x)), cos, sin)
        k = rotate(by_head(self.k_proj(x)), cos, sin)
        v = by_head(self.v_proj(x))
        shared = self.heads // self.kv_heads
        if shared > 1:
            k, v = k.repeat_interleave(shared, dim=1), v.repeat_interleave(shared, dim=1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(batch, sequence, hidden))


class FeedForward(nn.Module):
    """SwiGLU (Shazeer, arXiv 2002.05202)."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.ffn_hidden, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.ffn_hidden, bias=False)
        self.down_proj = nn.Linear(shape.ffn_hidden, shape.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    """One layer: attention and feed-forward, each behind a norm and beside a residual."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(shape.hidden, eps=NORM_EPS)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = nn.RMSNorm(shape.hidden, eps=NORM_EPS)
        self.mlp = FeedForward(shape)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    """Embedding, layers and the last norm."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.hidden)
        self.layers = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.hidden, eps=NORM_EPS)


class Llama(nn.Module):
    """The language model: `forward(tokens, targets)` -> mean cross-entropy; without targets logits."""

    def __init__(self, shape: ModelShape, seed: int = 0, *, recompute: bool = False) -> None:
        super().__init__()
        self.recompute = recompute
        self.model = Decoder(shape)
        self.lm_head = nn.Linear(shape.hidden, shape.vocabulary, bias=False)
        if shape.tied_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight
        cos, sin = rotary_tables(shape.hidden // shape.heads, shape.sequence)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        initialise(self, shape, seed)

    def forward(self, tokens: Tensor, targets: Tensor | None = None) -> Tensor:
        """tokens, targets: int64 [batch, sequence] -> a scalar, or logits [batch, sequence, vocabulary]."""
        x = self.model.embed_tokens(tokens)
        cos, sin = (table[: tokens.shape[1]].to(x.dtype) for table in (self.cos, self.sin))
        for layer in self.model.layers:
            x = checkpoint(layer, x, cos, sin, use_reentrant=False) if self.recompute else layer(x, cos, sin)
        logits = self.lm_head(self.model.norm(x))
        if targets is None:
            return logits
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def rotary_tables(head_dim: int, sequence: int) -> tuple[Tensor, Tensor]:
    """cos and sin of every position's angles, each [sequence, head_dim] (RoFormer, arXiv 2104.09864)."""
    frequency = ROPE_THETA ** (-torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    angles = torch.outer(torch.arange(sequence, dtype=torch.float32), frequency)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turns each pair (i, i + head_dim/2) of x, [batch, heads, sequence, head_dim], by its angle."""
    low, high = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-high, low), dim=-1) * sin


def initialise(model: Llama, shape: ModelShape, seed: int) -> None:
    """Normal(0, 0.02); projections back into the residual stream divided by sqrt(2 layers) (GPT-2)."""
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        if weight.dim() < 2:
            continue
        into_residual = name.endswith(("o_proj.weight", "down_proj.weight"))
        std = 0.02 / math.sqrt(2 * shape.layers) if into_residual else 0.02
        nn.init.normal_(weight, std=std, generator=generator)


def hugging_face_config(shape: ModelShape, *, dtype: str, eos_token_id: int | None) -> dict[str, object]:
    """`config.json` that makes `LlamaForCausalLM` the same model."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.ffn_hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.hidden // shape.heads,
        "hidden_act": "silu",
        "max_position_embeddings": shape.sequence,
        "rms_norm_eps": NORM_EPS,
        "rope_theta": ROPE_THETA,
        "rope_parameters": {"rope_type": "default", "rope_theta": ROPE_THETA},
        "tie_word_embeddings": shape.tied_embeddings,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": None,
        "eos_token_id": eos_token_id,
        "pad_token_id": None,
        "use_cache": True,
        "torch_dtype": dtype,
    }
