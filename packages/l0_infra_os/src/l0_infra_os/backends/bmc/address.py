"""Where a BMC is: addresses, the scheme to speak, a quick look whether anything listens."""

from __future__ import annotations

import ipaddress
import socket
import ssl

from l0_infra_os._kit.problems import BadInput


def split_address(address: str) -> tuple[str, str, int]:
    """(scheme or "", host, port) of `[https://]host[:port]`."""
    scheme, mark, rest = address.rpartition("://")
    host, colon, port = rest.rpartition(":")
    if not colon or (host.count(":") and not host.endswith("]")):
        host, port = rest, ""
    if port and not port.isdigit():
        raise BadInput(f"{address!r} is no address", field="addresses", do="write host or host:port")
    return scheme if mark else "", host.strip("[]"), int(port) if port else (80 if scheme == "http" else 443)


def service_url(address: str, timeout_s: float) -> str:
    """The URL of the Redfish service.

    Without a scheme it is https: a password never leaves the machine in clear because nobody
    said otherwise.  Only on loopback does a service without TLS get http.
    """
    scheme, host, port = split_address(address)
    literal = f"[{host}]" if ":" in host else host
    if not scheme:
        scheme = "http" if _is_loopback(host) and not _speaks_tls(host, port, timeout_s) else "https"
    return f"{scheme}://{literal}:{port}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _speaks_tls(host: str, port: int, timeout_s: float) -> bool:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((host, port), timeout=timeout_s) as connection:
        try:
            with context.wrap_socket(connection):
                return True
        except OSError:
            return False


def answers(address: str, timeout_s: float) -> bool:
    """Whether anything listens at an address: the quick first look of a discovery."""
    _scheme, host, port = split_address(address)
    try:
        with socket.create_connection((host, port), timeout=timeout_s):
            return True
    except OSError:
        return False
