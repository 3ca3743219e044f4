"""Who is calling the gateway: virtual keys from memory, reloaded when the store changes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from l4_mmodel.security.keys import PREFIX, Key, Keys, hash_of
from l4_mmodel.serving.asgi import Scope, header
from l4_mmodel.serving.limits import Limiter
from l4_mmodel.serving.loops import repeat
from l4_mmodel.serving.openai import ApiError
from l4_mmodel.store.database import Store

POLL_S = 0.2


@dataclass
class Caller:
    """A key with its limits; a signed-in user of the pages has none."""

    tenant: str
    name: str
    key: Key | None
    limiter: Limiter

    def must_have(self, scope: str) -> None:
        """Refuses what the key's scopes do not allow."""
        if self.key is not None and scope not in self.key.scopes:
            raise ApiError(403, f"This key lacks the scope '{scope}'.", code="insufficient_scope")

    def may_use(self, model: str) -> bool:
        """Whether the model is on the key's list."""
        return self.key is None or self.key.may_use(model)


class Access:
    """Finds the caller of a request."""

    def __init__(
        self, store: Store, sign_in: Callable[[Scope], str | None], clock: Callable[[], float]
    ) -> None:
        self.store = store
        self.keys = Keys(store, None, "gateway")
        self.sign_in = sign_in
        self.clock = clock
        self.callers: dict[str, Caller] = {}
        self.seen = -1
        self._looked = 0.0
        self._looking = asyncio.Lock()

    async def run(self) -> None:
        """Follows the store until cancelled."""
        await repeat(self.refresh, POLL_S)

    async def refresh(self) -> None:
        """Loads the keys anew if something has changed; limits of a key that stays go on."""
        generation = await asyncio.to_thread(self.store.generation)
        if generation == self.seen:
            return
        rows = await asyncio.to_thread(self.keys.all)
        self.seen = generation
        self.callers = {row.sha256: self._caller(row) for row in rows if row.revoked_at is None}

    async def _refresh_since(self, arrived: float) -> None:
        """Loads the keys if that was not begun after `arrived`: one look serves all who wait."""
        async with self._looking:
            if self._looked < arrived:
                self._looked = time.monotonic()
                await self.refresh()

    def _caller(self, key: Key) -> Caller:
        old = self.callers.get(key.sha256)
        if old is not None:
            return old
        limiter = Limiter(key.requests_per_minute, key.tokens_per_minute, key.parallel)
        return Caller(key.tenant, key.name, key, limiter)

    async def caller(self, scope: Scope) -> Caller:
        """The caller; `ApiError` 401 in OpenAI's words for anyone unknown."""
        kind, _, token = header(scope, b"authorization").partition(" ")
        if kind.lower() == "bearer" and token.startswith(PREFIX):
            return await self._by_key(token)
        tenant = self.sign_in(scope)
        if tenant is not None:
            return Caller(tenant, "signed-in", None, Limiter(None, None, None))
        if not token:
            message = "You didn't provide an API key. Send it as 'Authorization: Bearer KEY'."
            raise ApiError(401, message, code="missing_api_key")
        raise _wrong(token)

    async def _by_key(self, token: str) -> Caller:
        digest = hash_of(token)
        caller = self.callers.get(digest)
        if caller is None:
            await self._refresh_since(time.monotonic())
            caller = self.callers.get(digest)
        if caller is None or caller.key is None:
            raise _wrong(token)
        if not caller.key.usable(self.clock()):
            raise ApiError(401, "This API key has expired.", code="invalid_api_key")
        return caller


def _wrong(token: str) -> ApiError:
    shown = f"{token[:4]}…{token[-4:]}" if len(token) > 16 else "…"
    return ApiError(401, f"Incorrect API key provided: {shown}.", code="invalid_api_key")
