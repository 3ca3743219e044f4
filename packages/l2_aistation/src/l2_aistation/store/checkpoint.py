"""SQLite's write-ahead log is folded into the file by a thread of its own.

Left to SQLite, every thousandth page makes a commit wait for two more flushes and the copying.  Here a
passive checkpoint (which stops nobody) runs beside the commits, and only what came meanwhile is folded
in with the writer waiting, when the log has grown long.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from pathlib import Path

from sqlalchemy import Engine, event

EVERY_S = 1.0
SHORT_BYTES = 4 << 20
LONG_BYTES = 32 << 20

log = logging.getLogger(__name__)


class Checkpointer:
    """Runs beside a SQLite database until `close`; for other databases it does nothing."""

    def __init__(self, engine: Engine) -> None:
        self.stopping = threading.Event()
        self.thread: threading.Thread | None = None
        if engine.dialect.name != "sqlite" or not engine.url.database:
            return
        self.path = Path(engine.url.database)
        event.listen(engine, "connect", _leave_the_log_alone)
        engine.dispose()  # connections from before are not told
        self.thread = threading.Thread(target=self._run, name="aistation-checkpoint", daemon=True)
        self.thread.start()

    def close(self) -> None:
        """Ends the thread; the last connection that closes folds the rest in."""
        self.stopping.set()
        if self.thread is not None:
            self.thread.join(timeout=30)

    def _run(self) -> None:
        connection = sqlite3.connect(self.path, isolation_level=None, timeout=5.0)
        try:
            while not self.stopping.wait(EVERY_S):
                try:
                    self._fold(connection)
                except sqlite3.Error as error:
                    log.warning("the database's log was not folded in: %s", error)
        finally:
            connection.close()

    def _fold(self, connection: sqlite3.Connection) -> None:
        size = self._size()
        if size > SHORT_BYTES:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        if size > LONG_BYTES:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _size(self) -> int:
        try:
            return Path(f"{self.path}-wal").stat().st_size
        except OSError:
            return 0


def _leave_the_log_alone(connection: sqlite3.Connection, _record: object) -> None:
    connection.execute("PRAGMA wal_autocheckpoint=0")
