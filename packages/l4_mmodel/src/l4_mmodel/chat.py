"""Talking to a deployment from a terminal, over the same API that others use."""

from __future__ import annotations

import json
from typing import Any

from ._kit.problems import Failed, Unavailable

NEXT = {
    401: "make a key with `mmodel keys create NAME`, and give the file with it: --key-file FILE",
    404: "`mmodel deployments` lists what is served",
    429: "wait, or give the key a higher limit",
}


def talk(url: str, model: str, key: str, message: str | None) -> None:
    """Sends `message`, or each line of standard input, and prints the answers as they stream."""
    history: list[dict[str, str]] = []
    if message is not None:
        ask(url, model, key, [{"role": "user", "content": message}])
        return
    while True:
        try:
            text = input("> ")
        except EOFError:
            return
        if text.strip():
            history.append({"role": "user", "content": text})
            history.append({"role": "assistant", "content": ask(url, model, key, history)})


def ask(url: str, model: str, key: str, messages: list[dict[str, str]]) -> str:
    """Prints the streamed answer and returns it."""
    import httpx

    body = {"model": model, "messages": messages, "stream": True}
    headers = {"authorization": f"Bearer {key}"}
    texts: list[str] = []
    try:
        with httpx.stream(
            "POST", f"{url}/chat/completions", json=body, headers=headers, timeout=120
        ) as response:
            if response.status_code != 200:
                raise Failed(_message(response.read()), do=NEXT.get(response.status_code, ""))
            for line in response.iter_lines():
                text = _text(line)
                texts.append(text)
                print(text, end="", flush=True)
    except httpx.HTTPError as error:
        raise Unavailable(f"{url} does not answer: {error}", do="start `mmodel serve`") from error
    print()
    return "".join(texts)


def _text(line: str) -> str:
    if not line.startswith("data: ") or line == "data: [DONE]":
        return ""
    chunk: Any = json.loads(line.removeprefix("data: "))
    if "error" in chunk:
        raise Failed(str(chunk["error"]["message"]))
    return "".join(str(choice["delta"].get("content") or "") for choice in chunk["choices"])


def _message(raw: bytes) -> str:
    try:
        return str(json.loads(raw)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return raw.decode("utf-8", "replace")[:500]
