"""BMC user names and passwords: one private file, never in the database, a log or a page."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from l0_infra_os._kit.files import atomic_write, locked
from l0_infra_os._kit.problems import NotFound
from l0_infra_os.ports import Credentials


class CredentialStore:
    """Credentials by BMC address, in a file of mode 600."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, dict[str, Credentials]] | None = None

    def get(self, address: str) -> Credentials:
        """The credentials for an address."""
        try:
            return self._read()[address]
        except KeyError:
            raise NotFound(f"no credentials for BMC {address}", do="enroll it again") from None

    def put(self, addresses: Iterable[str], credentials: Credentials) -> None:
        """Stores the same credentials for several addresses."""
        with locked(self.path.with_suffix(".lock")):
            self._write({**self._read(), **dict.fromkeys(addresses, credentials)})

    def forget(self, address: str) -> None:
        """Forgets an address."""
        with locked(self.path.with_suffix(".lock")):
            rows = dict(self._read())
            if rows.pop(address, None):
                self._write(rows)

    def _read(self) -> dict[str, Credentials]:
        try:
            stamp = self.path.stat().st_mtime_ns
        except FileNotFoundError:
            return {}
        if self._seen is None or self._seen[0] != stamp:
            rows = json.loads(self.path.read_bytes())
            self._seen = (stamp, {address: Credentials(*row) for address, row in rows.items()})
        return self._seen[1]

    def _write(self, rows: dict[str, Credentials]) -> None:
        body = {address: [row.username, row.password] for address, row in rows.items()}
        atomic_write(self.path, json.dumps(body, indent=1), mode=0o600)
