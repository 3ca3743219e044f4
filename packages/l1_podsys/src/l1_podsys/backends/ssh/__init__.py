"""OpenSSH client processes: one connection per host kept for a while, host keys kept per cluster."""

from .config import SshFiles, write_config
from .transport import SshTransport

__all__ = ["SshFiles", "SshTransport", "write_config"]
