"""A transformers model that answers many requests in turn, one thread, a step of each at a time."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from l4_mmodel.serving.textstream import Detokeniser, StopFilter

from .caching import forward, new_cache
from .packing import Tokens
from .sampling import Sampler, Sampling
from .scoring import Scorer

logger = logging.getLogger(__name__)
BASE = ""
"""The adapter name that means: no adapter."""


@dataclass(frozen=True)
class TokenScore:
    """A token with its log-probability (None for the first of a prompt) and the likeliest ones."""

    token: int
    logprob: float | None
    top: list[tuple[int, float]]


@dataclass(frozen=True)
class Piece:
    """Something that a job reports: new text of a choice, or that it is finished."""

    choice: int
    text: str = ""
    scores: list[TokenScore] = field(default_factory=list)
    finish: str | None = None


@dataclass(frozen=True)
class Scores:
    """Token log-probabilities of one scored item's choices."""

    item: int
    choices: list[list[float]]


@dataclass(frozen=True)
class Done:
    """The end of a job, with its exact token counts."""

    prompt_tokens: int
    completion_tokens: int


Event = Piece | Scores | Done | Exception


@dataclass
class Job:
    """Something to compute with an adapter; `emit` is called from the engine's thread."""

    emit: Callable[[Event], None]
    adapter: str = BASE
    cancelled: threading.Event = field(default_factory=threading.Event)


@dataclass
class Generate(Job):
    """Continues `prompt` (token ids) `n` times."""

    prompt: list[int] = field(default_factory=list)
    n: int = 1
    max_tokens: int = 16
    sampling: Sampling = field(default_factory=Sampling)
    stops: Sequence[str] = ()
    logprobs: int | None = None
    echo: bool = False


@dataclass
class Score(Job):
    """Scores the choices of items."""

    items: Sequence[Tokens] = ()


class Engine:
    """Holds one base model, its adapters and its tokenizer."""

    def __init__(self, folder: Path, *, threads: int, dtype: str, context: int) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        torch.set_num_threads(threads)
        self.dtype = native_dtype() if dtype == "auto" else dtype
        self.tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self.model: Any = AutoModelForCausalLM.from_pretrained(
            folder, dtype=getattr(torch, self.dtype), local_files_only=True, use_safetensors=True,
            trust_remote_code=False,
        ).eval()  # fmt: skip
        self.context = min(context, getattr(self.model.config, "max_position_embeddings", context))
        self.ends = _end_tokens(self.model, self.tokenizer)
        self.scorer = Scorer(self.model)
        self.scorer.check(self.tokenizer.encode("The quick brown fox jumps over the lazy dog."))
        self.adapters: set[str] = set()
        self.active = BASE
        self._jobs: queue.SimpleQueue[Job | Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Hands a job to the engine's thread."""
        self._jobs.put(job)

    def load_adapter(self, name: str, folder: Path) -> None:
        """Adds a LoRA adapter between two steps; returns when it can be used."""
        done: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

        def load() -> None:
            try:
                self._load_adapter(name, folder)
                done.put(None)
            except Exception as error:  # noqa: BLE001 (handed to the caller, whose request it is)
                done.put(error)

        self._jobs.put(load)
        error = done.get()
        if error is not None:
            raise error

    def close(self) -> None:
        """Ends the thread after the step under way."""
        self._jobs.put(None)
        self._thread.join(timeout=30)

    def _load_adapter(self, name: str, folder: Path) -> None:
        if name in self.adapters:
            return
        from peft import PeftModel

        if isinstance(self.model, PeftModel):
            self.model.load_adapter(str(folder), adapter_name=name)
        else:
            self.model = PeftModel.from_pretrained(self.model, str(folder), adapter_name=name).eval()
        self.adapters.add(name)
        self.active = name
        self._use(BASE)

    def _use(self, adapter: str) -> None:
        """Switches to an adapter, or with BASE to none."""
        if adapter == self.active or not self.adapters:
            return
        if adapter == BASE:
            self.model.base_model.disable_adapter_layers()
        else:
            self.model.set_adapter(adapter)
            self.model.base_model.enable_adapter_layers()
        self.active = adapter

    @property
    def _network(self) -> Any:
        """The model to call: inside peft's wrapper, whose own forward takes fewer arguments."""
        return self.model.base_model.model if self.adapters else self.model

    def _run(self) -> None:
        running: list[tuple[Job, Iterator[None]]] = []
        while True:
            for wanted in self._drain(block=not running):
                if wanted is None:
                    return
                if callable(wanted):
                    wanted()
                else:
                    running.append((wanted, self._steps(wanted)))
            running.sort(key=lambda pair: pair[0].adapter)  # fewest switches
            running = [pair for pair in running if self._step(*pair)]

    def _drain(self, *, block: bool) -> Iterator[Any]:
        with contextlib.suppress(queue.Empty):
            while True:
                yield self._jobs.get(block=block)
                block = False

    def _step(self, job: Job, steps: Iterator[None]) -> bool:
        """Runs one step; whether the job has more of them."""
        if job.cancelled.is_set():
            return False
        try:
            self._use(job.adapter)
            next(steps)
        except StopIteration:
            return False
        except Exception as error:
            logger.exception("a job failed")
            job.emit(error)
            return False
        return True

    def _steps(self, job: Job) -> Iterator[None]:
        if isinstance(job, Score):
            return self._score(job)
        assert isinstance(job, Generate)
        return self._generate(job)

    def _score(self, job: Score) -> Iterator[None]:
        self.scorer.model = self._network
        for number, choices in self.scorer.steps(job.items):
            job.emit(Scores(number, choices))
            yield
        prompt = sum(len(item.prompt) for item in job.items)
        job.emit(Done(prompt, sum(len(choice) for item in job.items for choice in item.choices)))

    def _generate(self, job: Generate) -> Iterator[None]:
        if job.echo:
            self._echo(job)
            yield
        choices = [_Choice(self, job, number) for number in range(job.n)]
        if job.max_tokens > 0:
            cache, logits = self._prefill(job)
            while True:
                drawn = [choice.step(row) for choice, row in zip(choices, logits, strict=True)]
                if all(choice.finish for choice in choices):
                    break
                yield
                logits = self._decode(drawn, cache)
        for choice in choices:
            choice.end()
        job.emit(Done(len(job.prompt), sum(choice.count for choice in choices)))

    def _prefill(self, job: Generate) -> tuple[Any, Any]:
        import torch

        cache = new_cache(self._network)
        logits = forward(self._network, torch.tensor([job.prompt]), cache, logits_to_keep=1)
        if job.n > 1:
            cache.batch_repeat_interleave(job.n)
        return cache, logits[:, -1].float().expand(job.n, -1)

    def _decode(self, tokens: list[int], cache: Any) -> Any:
        import torch

        return forward(self._network, torch.tensor(tokens)[:, None], cache)[:, -1].float()

    def _echo(self, job: Generate) -> None:
        """Reports the prompt itself, with the log-probability of each token after the first."""
        scores: list[TokenScore] = []
        if job.logprobs is not None:
            scores = self._prompt_scores(job.prompt, job.logprobs)
        text = self.tokenizer.decode(job.prompt)
        for number in range(job.n):
            job.emit(Piece(number, text, scores))

    def _prompt_scores(self, prompt: list[int], top: int) -> list[TokenScore]:
        import torch

        logits = forward(self._network, torch.tensor([prompt]))[0]
        rows = torch.log_softmax(logits.float(), dim=-1)
        first = TokenScore(prompt[0], None, [])
        return [first, *(token_score(rows[at], token, top) for at, token in enumerate(prompt[1:]))]


class _Choice:
    """One of a job's sequences."""

    def __init__(self, engine: Engine, job: Generate, number: int) -> None:
        self.engine = engine
        self.job = job
        self.number = number
        self.sampler = Sampler(job.sampling, number)
        self.text = Detokeniser(lambda ids: str(engine.tokenizer.decode(ids, skip_special_tokens=True)))
        self.stop = StopFilter(job.stops)
        self.count = 0
        self.finish: str | None = None
        self.waiting: list[TokenScore] = []
        self.last = 0

    def step(self, logits: Any) -> int:
        """Draws a token and reports what it adds; a finished choice repeats its last token unseen."""
        if self.finish:
            return self.last
        token = self.last = self.sampler.draw(logits)
        self.count += 1
        if token in self.engine.ends:
            self.finish = "stop"
            return token
        if self.job.logprobs is not None:
            import torch

            self.waiting.append(token_score(torch.log_softmax(logits, dim=-1), token, self.job.logprobs))
        self._show(self.stop.add(self.text.add(token)))
        if self.stop.stopped:
            self.finish = "stop"
        elif self.count >= self.job.max_tokens:
            self.finish = "length"
        return token

    def _show(self, text: str) -> None:
        if text:
            self.job.emit(Piece(self.number, text, self.waiting))
            self.waiting = []

    def end(self) -> None:
        """Reports what was held back, and why the choice ended."""
        if not self.stop.stopped:
            self._show(self.stop.add(self.text.rest()) + self.stop.rest())
        self.job.emit(Piece(self.number, "", self.waiting, self.finish or "length"))


def token_score(row: Any, token: int, top: int) -> TokenScore:
    """The log-probability of `token` in a row of them, and the `top` likeliest."""
    values, tokens = row.topk(top) if top else ([], [])
    pairs = [(int(number), float(value)) for value, number in zip(values, tokens, strict=True)]
    return TokenScore(token, float(row[token]), pairs)


def native_dtype() -> str:
    """bfloat16 where the processor has instructions for it, else float32."""
    try:
        flags = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        return "float32"
    return "bfloat16" if "avx512_bf16" in flags or "amx_bf16" in flags else "float32"


def _end_tokens(model: Any, tokenizer: Any) -> set[int]:
    """Tokens that end an answer: the generation settings' and the tokenizer's."""
    configured = model.generation_config.eos_token_id
    ends = set(configured) if isinstance(configured, list) else {configured}
    return {token for token in (*ends, tokenizer.eos_token_id) if token is not None}
