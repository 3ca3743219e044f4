"""Models of a hub that speaks the Hugging Face Hub's protocol: `hf://OWNER/NAME@REVISION`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx

from l4_mmodel._kit.problems import Failed, NotFound, Unauthorized, Unavailable

from .downloads import RemoteFile

ENDPOINT = "https://huggingface.co"


class HubSource:
    """A repository at one commit; `HF_ENDPOINT` and `HF_TOKEN` say where and who, as for the Hub's client."""

    def __init__(self, place: str, *, endpoint: str | None = None, token: str | None = None) -> None:
        self.repository, _, revision = place.partition("@")
        self.endpoint = (endpoint or os.environ.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")
        token = token or os.environ.get("HF_TOKEN")
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self.client = httpx.Client(headers=headers, follow_redirects=True, timeout=60)
        model = f"/api/models/{quote(self.repository)}"
        self.commit = str(self._json(f"{model}/revision/{quote(revision or 'main', safe='')}")["sha"])
        self.tree = f"{model}/tree/{self.commit}?recursive=true"

    @property
    def name(self) -> str:
        """The repository's name without its owner."""
        return self.repository.rpartition("/")[2]

    @property
    def version(self) -> str:
        """The commit."""
        return self.commit

    @property
    def identity(self) -> str:
        """What the download is of."""
        return f"hf://{self.repository}@{self.commit}"

    def files(self) -> list[RemoteFile]:
        """Every file with its size and digest; long lists come in pages."""
        found, url = [], f"{self.endpoint}{self.tree}"
        while url:
            answer = self._get(url)
            for row in answer.json():
                if row["type"] == "file":
                    lfs = row.get("lfs") or {}
                    git = None if lfs else row["oid"]
                    found.append(RemoteFile(row["path"], int(row["size"]), lfs.get("oid"), git))
            url = str(answer.links.get("next", {}).get("url", ""))
        return found

    def open_at(self, file: RemoteFile, offset: int) -> Iterator[bytes]:
        """The file's bytes from `offset` on."""
        url = f"{self.endpoint}/{quote(self.repository)}/resolve/{self.commit}/{quote(file.path)}"
        headers = {"range": f"bytes={offset}-"} if offset else {}
        try:
            with self.client.stream("GET", url, headers=headers) as answer:
                _raise_for(answer, self.repository)
                if offset and answer.status_code != 206:
                    raise Failed(
                        f"{self.endpoint} cannot resume {file.path}", do="delete it and import again"
                    )
                yield from answer.iter_raw()  # as it arrives: what came before a break is kept
        except httpx.HTTPError as error:
            raise Unavailable(
                f"{file.path}: the download broke off", why=str(error), do="import again: it goes on"
            ) from error

    def close(self) -> None:
        """Closes the connections."""
        self.client.close()

    def _json(self, path: str) -> dict[str, Any]:
        value: dict[str, Any] = self._get(f"{self.endpoint}{path}").json()
        return value

    def _get(self, url: str) -> httpx.Response:
        try:
            answer = self.client.get(url)
        except httpx.HTTPError as error:
            raise Unavailable(
                f"{self.endpoint} does not answer", why=str(error), do="set HF_ENDPOINT to a hub that does"
            ) from error
        _raise_for(answer, self.repository)
        return answer


def _raise_for(answer: httpx.Response, repository: str) -> None:
    if answer.status_code == 401:
        raise Unauthorized(f"the hub wants a token for {repository}", do="set HF_TOKEN")
    if answer.status_code in (403, 404):
        told = answer.headers.get("x-error-message", "")
        raise NotFound(f"the hub has no {repository}, or not for this token", why=told)
    if answer.is_error:
        raise Unavailable(f"the hub answers {answer.status_code}", do="try again later")
