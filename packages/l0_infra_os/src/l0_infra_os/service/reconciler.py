"""The loop that carries nodes in flight: it knows nothing between two steps but the database.

Many nodes at once, each by itself; a step that hangs on one BMC holds one worker, not the loop.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor

from sqlalchemy.exc import SQLAlchemyError

from .site import Site
from .steps import advance

log = logging.getLogger(__name__)

LONGEST_SLEEP_S = 0.5
"""How late the wish of another process is noticed."""


class Reconciler:
    """Advances nodes until it is stopped.  One at a time for a site: see `infra.serving`."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._stop = threading.Event()
        self._busy: set[str] = set()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="l0-reconciler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends after the steps that are running; what is in flight stays so in the database."""
        self._stop.set()
        self.site.wake.set()
        self._thread.join()

    def _run(self) -> None:
        with ThreadPoolExecutor(self.site.settings.workers, thread_name_prefix="l0-step") as pool:
            while not self._stop.is_set():
                self.site.wake.clear()
                try:
                    sleep_s = self._submit_due(pool)
                except SQLAlchemyError:
                    log.exception("the database does not answer; trying again")
                    sleep_s = LONGEST_SLEEP_S
                self.site.wake.wait(sleep_s)

    def _submit_due(self, pool: ThreadPoolExecutor) -> float:
        with self.site.store.begin() as tx:
            due, next_due, now = tx.due(), tx.next_due(), tx.now
        for node_id, version in due:
            with self._lock:
                if node_id in self._busy:
                    continue
                self._busy.add(node_id)
            pool.submit(self._step, node_id, version)
        if next_due is None or next_due <= now:
            return LONGEST_SLEEP_S
        return max(0.0, min(LONGEST_SLEEP_S, next_due - now))

    def _step(self, node_id: str, version: int) -> None:
        try:
            advance(self.site, node_id, version)
        except Exception:
            log.exception("a step of node %s broke", node_id)
            self._stop.wait(LONGEST_SLEEP_S)
        finally:
            with self._lock:
                self._busy.discard(node_id)
            self.site.wake.set()
