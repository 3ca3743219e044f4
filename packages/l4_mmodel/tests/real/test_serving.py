"""Real runtimes behind the real server, asked by the official client."""

from __future__ import annotations

import functools
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from l4_mmodel.api import Mmodel, Server, Settings
from l4_mmodel.testing import Endpoint, OpenAiConformance, write_manifest

openai = pytest.importorskip("openai")
pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")
pytestmark = pytest.mark.real


@dataclass
class Running:
    """A server with a small base model and an adapter on it, and a key."""

    mmodel: Mmodel
    server: Server
    key: str

    @functools.cached_property
    def client(self) -> Any:
        return openai.OpenAI(base_url=self.server.url, api_key=self.key, max_retries=0, timeout=60)

    def ask(self, text: str, model: str = "tiny-llama", **options: Any) -> Any:
        options = {"max_tokens": 12, "temperature": 0, **options}
        messages = [{"role": "user", "content": text}]
        return self.client.chat.completions.create(model=model, messages=messages, **options)


@pytest.fixture(scope="module")
def running(
    tiny_llama: Path, tiny_adapter: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    settings = Settings(home=tmp_path_factory.mktemp("home"), dtype="float32", threads=1)
    mmodel = Mmodel(settings)
    for folder in (tiny_llama, tiny_adapter):
        mmodel.deploy(mmodel.register(folder))
    with mmodel.serve(port=0, wait_for=["tiny-llama", "tiny-lora"]) as server:
        one = Running(mmodel, server, mmodel.keys.create("k").secret)
        yield one
        one.client.close()
    mmodel.close()


class TestTransformersRuntime(OpenAiConformance):
    """Every endpoint's facts, on a base model."""

    @pytest.fixture
    def endpoint(self, running: Running) -> Endpoint:
        return Endpoint(running.server.url, running.key, "tiny-llama")


def test_the_adapter_answers_otherwise_and_leaves_the_base_alone(running: Running) -> None:
    before = running.ask("abc").choices[0].message.content
    adapted = running.ask("abc", model="tiny-lora").choices[0].message.content
    assert adapted != before
    assert running.ask("abc").choices[0].message.content == before


def test_both_at_once_do_not_mix(running: Running) -> None:
    alone = {
        model: running.ask("xyz", model=model).choices[0].message.content
        for model in ("tiny-llama", "tiny-lora")
    }
    together: list[tuple[str, str]] = []

    def ask(model: str) -> None:
        together.append((model, running.ask("xyz", model=model).choices[0].message.content))

    threads = [threading.Thread(target=ask, args=(model,)) for model in alone for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {text for model, text in together if model == "tiny-llama"} == {alone["tiny-llama"]}
    assert {text for model, text in together if model == "tiny-lora"} == {alone["tiny-lora"]}


def test_echo_and_logprobs_are_the_models_own(running: Running, tiny_llama: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    answer = running.client.completions.create(
        model="tiny-llama", prompt="hello", max_tokens=0, echo=True, logprobs=2
    ).choices[0]
    tokenizer = AutoTokenizer.from_pretrained(tiny_llama)
    ids = tokenizer.encode("hello")
    with torch.inference_mode():
        model = AutoModelForCausalLM.from_pretrained(tiny_llama)
        rows = torch.log_softmax(model(torch.tensor([ids])).logits[0], dim=-1)
    expected = [float(rows[at, token]) for at, token in enumerate(ids[1:])]
    assert answer.text == "hello"
    assert answer.logprobs.token_logprobs[0] is None
    assert answer.logprobs.token_logprobs[1:] == pytest.approx(expected, abs=1e-4)
    assert answer.logprobs.text_offset == [0, 1, 2, 3, 4]
    assert all(len(top) <= 2 for top in answer.logprobs.top_logprobs[1:])


def test_the_decoded_text_is_transformers_own(running: Running, tiny_llama: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_llama)
    model = AutoModelForCausalLM.from_pretrained(tiny_llama)
    ids = tokenizer("hello", return_tensors="pt").input_ids
    expected = model.generate(ids, max_new_tokens=12, do_sample=False)[0, ids.shape[1] :]
    answer = running.client.completions.create(
        model="tiny-llama", prompt="hello", max_tokens=12, temperature=0
    )
    assert answer.choices[0].text == tokenizer.decode(expected, skip_special_tokens=True)
    by_ids = running.client.completions.create(
        model="tiny-llama", prompt=[ids[0].tolist(), ids[0].tolist()], max_tokens=12, temperature=0
    )
    assert [choice.text for choice in by_ids.choices] == [answer.choices[0].text] * 2
    assert by_ids.usage.prompt_tokens == 2 * answer.usage.prompt_tokens


def test_seeds_choices_and_stops(running: Running) -> None:
    def texts(seed: int) -> list[str]:
        answer = running.ask("abc", n=3, seed=seed, temperature=1.5)
        return [choice.message.content for choice in answer.choices]

    assert texts(1) == texts(1)
    assert texts(1) != texts(2)
    assert len(set(texts(1))) == 3
    some: dict[str, Any] = {"seed": 5, "temperature": 1.5, "max_tokens": 40}
    whole = running.ask("abc", **some).choices[0].message.content
    stop = whole[len(whole) // 2]
    cut = running.ask("abc", **some, stop=[stop]).choices[0]
    assert (cut.message.content, cut.finish_reason) == (whole[: whole.index(stop)], "stop")
    biased = running.ask("abc", max_tokens=4, logit_bias={"70": 100}).choices[0].message.content
    assert len(set(biased)) == 1


def test_logprobs_are_the_same_streamed_or_not(running: Running) -> None:
    options: dict[str, Any] = {"logprobs": True, "top_logprobs": 2}
    whole = running.ask("abc", **options).choices[0].logprobs.content
    streamed = [
        row
        for chunk in running.ask("abc", stream=True, **options)
        for row in ((chunk.choices[0].logprobs and chunk.choices[0].logprobs.content) or [])
    ]
    assert [row.token for row in streamed] == [row.token for row in whole]
    assert [row.logprob for row in streamed] == pytest.approx([row.logprob for row in whole], abs=1e-4)


def test_what_it_cannot_do_is_refused(running: Running) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    picture = [{"type": "image_url", "image_url": {"url": "data:,"}}]
    for wrong in ({"tools": [tool]}, {"response_format": {"type": "json_object"}}):
        with pytest.raises(openai.BadRequestError):
            running.ask("x", **wrong)
    with pytest.raises(openai.BadRequestError, match="text only"):
        running.ask(picture)  # type: ignore[arg-type]
    with pytest.raises(openai.BadRequestError) as caught:
        running.ask("x" * 600)
    body: Any = caught.value.body
    assert body["code"] == "context_length_exceeded"


def runtime_pid(server: Server) -> int:
    """The process id of the server's one runtime."""
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
    (pid,) = [int(text) for text in children.read_text().split()]
    return pid


def test_a_killed_runtime_is_503_and_comes_back(running: Running) -> None:
    endless: dict[str, Any] = {"logit_bias": {"70": 100}, "max_tokens": 450, "n": 8}  # one letter, always
    stream = iter(running.ask("abc", stream=True, **endless))
    next(stream)
    os.kill(runtime_pid(running.server), signal.SIGKILL)
    with pytest.raises(openai.APIError, match="ended during the answer"):
        print(len(list(stream)), "chunks came after the kill")
    with pytest.raises(openai.APIStatusError) as caught:
        running.ask("abc")
    assert caught.value.status_code == 503
    assert int(caught.value.response.headers["retry-after"]) >= 1
    for _ in range(300):
        try:
            assert running.ask("abc", model="tiny-lora").choices[0].finish_reason
            return
        except openai.InternalServerError:
            time.sleep(0.1)
    raise AssertionError("the runtime did not come back")


def test_stop_lets_requests_under_way_end(running: Running) -> None:
    running.mmodel.deploy("tiny-llama", name="going")
    running.server.wait(["going"], 30)
    stream = running.ask("abc", model="going", stream=True, max_tokens=400, logit_bias={"70": 100}, n=4)
    seen = [next(iter(stream))]
    running.mmodel.stop("going")
    time.sleep(0.5)
    with pytest.raises(openai.NotFoundError):
        running.ask("abc", model="going")
    seen += list(stream)
    assert seen[-1].choices[0].finish_reason == "length"
    for _ in range(100):
        if running.mmodel.deployed.get("default", "going").state == "stopped":
            return
        time.sleep(0.1)
    raise AssertionError("it was not stopped")


def test_a_second_server_on_the_same_state_is_refused(running: Running) -> None:
    from l4_mmodel.api import Failed

    with pytest.raises(Failed, match="serves this state already"):
        running.mmodel.serve(port=0)


def test_a_killed_server_leaves_no_process_and_the_next_goes_on(tiny_llama: Path, tmp_path: Path) -> None:
    mmodel = Mmodel(Settings(home=tmp_path, dtype="float32", threads=1))
    mmodel.deploy(mmodel.register(tiny_llama))
    server = mmodel.serve(port=0, wait_for=["tiny-llama"])
    pid = runtime_pid(server)
    server.process.kill()
    server.process.wait()
    for _ in range(100):
        if not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_bytes():
            break
        time.sleep(0.05)
    else:
        raise AssertionError("the runtime outlived its server")
    with mmodel.serve(port=0, wait_for=["tiny-llama"]) as again:
        one = Running(mmodel, again, mmodel.keys.create("k").secret)
        assert one.ask("abc").choices[0].finish_reason
        one.client.close()
    mmodel.close()


@pytest.fixture(scope="module")
def gguf_server(smollm2_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    pytest.importorskip("xllamacpp")
    folder = tmp_path_factory.mktemp("gguf")
    (folder / "model.gguf").write_bytes(smollm2_gguf.read_bytes())
    mmodel = Mmodel(Settings(home=tmp_path_factory.mktemp("home-gguf"), context_limit=2048))
    mmodel.deploy(mmodel.register(write_manifest(folder, name="smol-gguf", parameters=134_515_008)))
    with mmodel.serve(port=0, wait_for=["smol-gguf"]) as server:
        one = Running(mmodel, server, mmodel.keys.create("k").secret)
        yield one
        one.client.close()
    mmodel.close()


class TestLlamaCppRuntime(OpenAiConformance):
    """The same facts on a GGUF file, which llama.cpp runs."""

    @pytest.fixture
    def endpoint(self, gguf_server: Running) -> Endpoint:
        return Endpoint(gguf_server.server.url, gguf_server.key, "smol-gguf")

    def test_no_path_of_the_server_leaks(self, gguf_server: Running) -> None:
        answer = gguf_server.ask("hi", model="smol-gguf")
        assert answer.model == "smol-gguf"
        assert ".gguf" not in answer.to_json()

    def test_echo_is_refused_not_ignored(self, gguf_server: Running) -> None:
        with pytest.raises(openai.BadRequestError, match="echo"):
            gguf_server.client.completions.create(model="smol-gguf", prompt="a", echo=True, logprobs=1)

    def test_it_knows_the_capital_of_france(self, gguf_server: Running) -> None:
        answer = gguf_server.client.completions.create(
            model="smol-gguf", prompt="The capital of France is", temperature=0, max_tokens=4
        )
        assert answer.choices[0].text.startswith(" Paris")
