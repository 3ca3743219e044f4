"""Any OpenAI-compatible URL as a runtime; its key is read from a file at each start, never stored."""

from __future__ import annotations

from pathlib import Path

import aiohttp

from l4_mmodel._kit.problems import BadInput, Unavailable


class Remote:
    """An upstream at `url` (without /v1), which knows the model as `model`."""

    running = True

    def __init__(self, url: str, model: str, key_file: str | None = None) -> None:
        if not url.startswith(("http://", "https://")):
            raise BadInput(f"{url!r} is not an HTTP address", field="url")
        self.url = url.rstrip("/").removesuffix("/v1")
        self.model = model
        self.key_file = key_file
        self.description = f"openai-compatible {self.url}"
        self._session: aiohttp.ClientSession | None = None

    @property
    def session(self) -> aiohttp.ClientSession:
        """The client, with the upstream's key in its headers."""
        if self._session is None:
            headers = {}
            if self.key_file:
                headers["authorization"] = f"Bearer {Path(self.key_file).read_text('utf-8').strip()}"
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
            connector = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(headers=headers, timeout=timeout, connector=connector)
        return self._session

    async def start(self, timeout_s: float) -> None:
        """Asks the upstream for its models once, so that a wrong address is told at once."""
        try:
            async with self.session.get(
                f"{self.url}/v1/models", timeout=aiohttp.ClientTimeout(total=min(timeout_s, 10))
            ) as response:
                if response.status in (401, 403):
                    raise Unavailable(f"{self.url} refuses the key", do="check the key file")
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unavailable(f"{self.url} does not answer: {error}", do="check the address") from error

    async def stop(self, _grace_s: float = 0) -> None:
        """Closes the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None
