"""The message broker: a Redis-protocol server that is given, found on the machine, or embedded.

`open_broker(settings)` gives the platform its broker; `url_for_agents(settings)` what an agent needs
to reach it.  A private server listens on a Unix socket in the state folder; with `broker_listen` it
listens on TCP as well as it must, and then only with a generated password.
"""

from __future__ import annotations

from .private import Broker, open_broker, url_for_agents

__all__ = ["Broker", "open_broker", "url_for_agents"]
