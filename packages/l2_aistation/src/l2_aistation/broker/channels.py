"""What the platform and the agents share on the broker: queues, keys and the Celery application.

node.<id>                 Celery queue of a node's commands
ogai:l2:beat:<id>         a node's heartbeat, gone when it is not renewed     ogai:l2:nodes   their ids
ogai:l2:events            stream of events to the platform
ogai:l2:acknowledged      source -> number that is durable in the platform
ogai:l2:resend            sources of which the platform misses something
ogai:l2:fence:<job>       the newest attempt; older ones must not start any more
"""

from __future__ import annotations

from typing import Any

from . import urls

COMMAND = "aistation.node.command"
BEAT = "ogai:l2:beat:"
NODES = "ogai:l2:nodes"
EVENTS = "ogai:l2:events"
ACKNOWLEDGED = "ogai:l2:acknowledged"
RESEND = "ogai:l2:resend"
FENCE = "ogai:l2:fence:"

BEAT_TTL_S = 30
FENCE_TTL_S = 7 * 86400
MOST_EVENTS = 500_000
_LONGEST_COMMAND_S = 20
"""A command that a killed agent held comes back to the queue after this time."""


def queue_of(node: str) -> str:
    """The Celery queue that only this node's agent reads."""
    return f"node.{node}"


def celery_app(url: str) -> Any:
    """The Celery application: short idempotent commands, acknowledged late, one at a time."""
    from celery import Celery
    from kombu import Connection

    class Steady(Connection):  # type: ignore[misc]
        """Asks a silent broker again every second; kombu's own pauses grow to half a minute."""

        def ensure_connection(self, *arguments: Any, **options: Any) -> Any:
            pauses = {"interval_start": 1, "interval_step": 0, "interval_max": 1}
            return super().ensure_connection(*arguments, **{**options, **pauses})

    app = Celery("aistation", broker=urls.for_celery(url), backend=None, set_as_current=False)
    app.amqp.Connection = Steady
    app.conf.update(
        task_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=1,
        worker_send_task_events=False,
        worker_enable_remote_control=False,
        worker_hijack_root_logger=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        broker_connection_retry=True,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={
            "visibility_timeout": _LONGEST_COMMAND_S,
            "unacked_restore_interval": 1,  # with the defaults a command of a killed agent
            "unacked_restore_throttle": 1,  # comes back only after an hour
            "socket_timeout": 10,
            "socket_connect_timeout": 5,
            "socket_keepalive": True,
            "retry_on_timeout": False,
        },
    )
    return app
