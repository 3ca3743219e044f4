"""Published helpers: small models for tests, and what every OpenAI-compatible endpoint of ours must do.

from l4_mmodel.testing import OpenAiConformance

class TestMine(OpenAiConformance):
    @pytest.fixture
    def endpoint(self) -> Endpoint: ...
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._kit.documents import digest_of

SCHEMA = "ogai.model-manifest/v1"


def safetensors(tensors: dict[str, bytes], **metadata: str) -> bytes:
    """A safetensors file of U8 tensors, written by its format description."""
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    at = 0
    for name, data in tensors.items():
        header[name] = {"dtype": "U8", "shape": [len(data)], "data_offsets": [at, at + len(data)]}
        at += len(data)
    raw = json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + b"".join(tensors.values())


def write_manifest(folder: Path, **fields: Any) -> Path:
    """A `model-manifest/v1` over every file of a folder; `fields` adds or replaces members."""
    files = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != "model-manifest.json":
            with open(path, "rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
            uri = path.relative_to(folder).as_posix()
            files.append({"uri": uri, "sha256": f"sha256:{digest}", "bytes": path.stat().st_size})
    value = {
        "schema": SCHEMA,
        "producer": {"name": "test", "version": "1"},
        "inputs": [],
        "name": "tiny",
        "version": "1",
        "type": "causal-lm",
        "architecture": "LlamaForCausalLM",
        "parameters": 8,
        "dtype": "float32",
        "licence": "Apache-2.0",
        "files": files,
        **fields,
    }
    path = folder / "model-manifest.json"
    path.write_text(json.dumps(value))
    return path


def manifest_digest(path: Path) -> str:
    """The digest of a document in a file."""
    return digest_of(json.loads(path.read_bytes()))


@dataclass(frozen=True)
class Endpoint:
    """Where a model answers."""

    url: str
    key: str
    model: str


class OpenAiConformance:
    """Facts that hold for every deployment, whatever runs it; needs the `openai` package and pytest."""

    @staticmethod
    def client(endpoint: Endpoint, key: str | None = None) -> Any:
        """The official client."""
        import openai

        return openai.OpenAI(base_url=endpoint.url, api_key=key or endpoint.key, max_retries=0, timeout=60)

    @staticmethod
    def asked(endpoint: Endpoint, **options: Any) -> dict[str, Any]:
        """A small deterministic request."""
        messages = [{"role": "user", "content": "Say something short."}]
        return {"model": endpoint.model, "messages": messages, "temperature": 0, "max_tokens": 8, **options}

    def test_models_lists_and_retrieves(self, endpoint: Endpoint) -> None:
        with self.client(endpoint) as client:
            assert endpoint.model in [row.id for row in client.models.list()]
            assert client.models.retrieve(endpoint.model).object == "model"

    def test_streaming_gives_the_same_text_reason_and_counts(self, endpoint: Endpoint) -> None:
        options = {"stream": True, "stream_options": {"include_usage": True}}
        with self.client(endpoint) as client:
            whole = client.chat.completions.create(**self.asked(endpoint))
            chunks = list(client.chat.completions.create(**self.asked(endpoint, **options)))
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        reasons = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices]
        assert text == whole.choices[0].message.content
        assert [reason for reason in reasons if reason] == [whole.choices[0].finish_reason]
        assert chunks[-1].choices == []
        assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens <= 8
        assert chunks[-1].usage.prompt_tokens == whole.usage.prompt_tokens > 0

    def test_usage_comes_only_when_asked_for(self, endpoint: Endpoint) -> None:
        with self.client(endpoint) as client:
            chunks = list(client.chat.completions.create(**self.asked(endpoint, stream=True)))
        assert all(chunk.choices for chunk in chunks)
        assert not any(chunk.usage for chunk in chunks)

    def test_an_answer_cut_by_its_limit_says_so(self, endpoint: Endpoint) -> None:
        with self.client(endpoint) as client:
            answer = client.chat.completions.create(**self.asked(endpoint, max_tokens=1))
        assert answer.choices[0].finish_reason == "length"
        assert answer.usage.completion_tokens == 1

    def test_a_wrong_key_is_told_in_openais_form(self, endpoint: Endpoint) -> None:
        import openai
        import pytest

        with (
            self.client(endpoint, key="sk-wrong-0123456789") as client,
            pytest.raises(openai.AuthenticationError) as caught,
        ):
            client.models.list()
        body: Any = caught.value.body
        assert body["code"] == "invalid_api_key"
        assert "0123456789" not in body["message"]

    def test_an_unknown_model_is_not_found(self, endpoint: Endpoint) -> None:
        import openai
        import pytest

        with self.client(endpoint) as client, pytest.raises(openai.NotFoundError) as caught:
            client.chat.completions.create(**self.asked(endpoint, model="no-such-model"))
        body: Any = caught.value.body
        assert (body["code"], body["param"]) == ("model_not_found", "model")

    def test_bad_parameters_are_named(self, endpoint: Endpoint) -> None:
        import openai
        import pytest

        for wrong, param in (
            ({"messages": []}, "messages"),
            ({"temperature": -1}, "temperature"),
            ({"n": 0}, "n"),
            ({"max_tokens": -5}, "max_tokens"),
            ({"top_logprobs": 3}, "top_logprobs"),
            ({"stream_options": {"include_usage": True}}, "stream_options"),
        ):
            with self.client(endpoint) as client, pytest.raises(openai.BadRequestError) as caught:
                client.chat.completions.create(**self.asked(endpoint, **wrong))
            body: Any = caught.value.body
            assert body["param"] == param
