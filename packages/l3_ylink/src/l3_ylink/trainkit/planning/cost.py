"""What a model costs: parameters, FLOPs of every matrix product, bytes on each rank.

Model FLOPs (MFU) are those of forward and backward; hardware FLOPs (HFU) add what recomputation
repeats.  A product of [m, k] and [k, n] is 2·m·k·n FLOPs.  Attention is counted in full, as in PaLM
(arXiv 2204.02311, appendix B); with `causal` only the half below the diagonal, as Megatron-Core does.
"""

from __future__ import annotations

from dataclasses import dataclass

from l3_ylink.documents import ModelShape

BYTES_OF = {"float32": 4, "bfloat16": 2, "float16": 2}
OPTIMIZER_BYTES = 12
"""Adam's two moments and the master copy that ZeRO keeps, all float32."""


def layer_parameters(shape: ModelShape) -> int:
    """Weights of one layer: four projections of attention, three of SwiGLU, two norms."""
    kv_width = shape.hidden // shape.heads * shape.kv_heads
    attention = 2 * shape.hidden * (shape.hidden + kv_width)
    return attention + 3 * shape.hidden * shape.ffn_hidden + 2 * shape.hidden


def parameter_count(shape: ModelShape) -> int:
    """All weights; tied embeddings count once."""
    embeddings = shape.vocabulary * shape.hidden * (1 if shape.tied_embeddings else 2)
    return embeddings + shape.layers * layer_parameters(shape) + shape.hidden


def forward_flops(shape: ModelShape, sequences: int, *, causal: bool = False) -> float:
    """FLOPs of one forward pass over `sequences` sequences, every matrix product counted."""
    projections = 2.0 * (layer_parameters(shape) - 2 * shape.hidden)
    attention = (2.0 if causal else 4.0) * shape.sequence * shape.hidden  # QKᵀ and the sum of values
    head = 2.0 * shape.hidden * shape.vocabulary
    per_token = shape.layers * (projections + attention) + head
    return per_token * shape.sequence * sequences


def step_flops(shape: ModelShape, global_batch: int, *, causal: bool = False) -> float:
    """Model FLOPs of a training step: the backward pass has twice the products of the forward."""
    return 3 * forward_flops(shape, global_batch, causal=causal)


def hardware_flops(shape: ModelShape, global_batch: int, recompute: str) -> float:
    """Model FLOPs and what recomputation repeats: with `full`, every layer's forward once more.

    (As published HFU figures count it; torch leaves out each layer's last product, whose result
    the backward pass does not need.)
    """
    if recompute == "none":
        return step_flops(shape, global_batch)
    head = 2.0 * shape.hidden * shape.vocabulary * shape.sequence * global_batch
    return step_flops(shape, global_batch) + forward_flops(shape, global_batch) - head


def mfu(flops_per_step: float, step_s: float, peak_flops: float) -> float:
    """FLOPs per step over what the ranks together could do in that time at their dense peak.

    It is MFU when given model FLOPs and HFU when given hardware FLOPs.
    """
    return flops_per_step / (step_s * peak_flops)


@dataclass(frozen=True)
class StateBytes:
    """Bytes on one rank for weights, gradients and optimizer."""

    parameters: float
    gradients: float
    optimizer: float

    @property
    def total(self) -> float:
        return self.parameters + self.gradients + self.optimizer


def model_state_bytes(
    parameters: float, *, data_parallel: int, zero_stage: int, dtype: str = "bfloat16"
) -> StateBytes:
    """Model states of a rank under ZeRO (arXiv 1910.02054, table 1, K = 12).

    Stage 1 divides the optimizer's states by the data-parallel degree, 2 the gradients as well,
    3 the parameters as well.
    """
    width = BYTES_OF[dtype]

    def shared(count: float, since_stage: int) -> float:
        return count / data_parallel if zero_stage >= since_stage else count

    return StateBytes(
        parameters=shared(width * parameters, 3),
        gradients=shared(width * parameters, 2),
        optimizer=shared(OPTIMIZER_BYTES * parameters, 1),
    )


def activation_bytes(shape: ModelShape, micro_batch: int, *, dtype: str, recompute: str = "none") -> float:
    """What autograd keeps of a micro-batch for the backward pass of this package's Llama.

    Per token and layer: 10 vectors of the hidden size (three at each norm; queries, keys, values
    and the output of attention), 4 of the feed-forward size, the norms' and the softmax's scales.
    With full recomputation a layer keeps its input only, and one layer is whole at a time.
    """
    width, tokens = BYTES_OF[dtype], micro_batch * shape.sequence
    layer = (10 * shape.hidden + 4 * shape.ffn_hidden) * width + (2 + shape.heads) * 4
    kept = shape.layers * layer
    if recompute == "full":
        kept = shape.layers * shape.hidden * width + layer
    last_norm = 3 * shape.hidden * width + 4
    return float(tokens * (kept + last_norm + logit_bytes(shape)))


def logit_bytes(shape: ModelShape) -> int:
    """Log-probabilities of one position, kept in float32, and its target."""
    return 4 * shape.vocabulary + 8


@dataclass(frozen=True)
class Memory:
    """The forecast for the fullest rank, in bytes."""

    states: StateBytes
    activations: float
    workspace: float

    @property
    def total(self) -> int:
        return round(self.states.total + self.activations + self.workspace)


def memory(
    shape: ModelShape,
    *,
    data_parallel: int,
    tensor_parallel: int,
    pipeline_parallel: int,
    zero_stage: int,
    micro_batch: int,
    dtype: str,
    recompute: str,
) -> Memory:
    """Bytes on the fullest rank: states, kept activations, and the gradient of the logits.

    Tensor parallelism is taken with sequence parallelism (activations divide too); the first
    pipeline stage holds the embedding and, under 1F1B, as many micro-batches as there are stages.
    """
    embeddings = shape.vocabulary * shape.hidden
    if pipeline_parallel == 1:
        parameters = parameter_count(shape)
    else:
        parameters = shape.layers // pipeline_parallel * layer_parameters(shape) + embeddings
    states = model_state_bytes(
        parameters / tensor_parallel, data_parallel=data_parallel, zero_stage=zero_stage, dtype=dtype
    )
    activations = activation_bytes(shape, micro_batch, dtype=dtype, recompute=recompute) / tensor_parallel
    workspace = 4.0 * micro_batch * shape.sequence * shape.vocabulary / tensor_parallel
    return Memory(states, activations, workspace)
