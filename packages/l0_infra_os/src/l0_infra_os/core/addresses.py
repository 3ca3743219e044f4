"""Ranges of BMC addresses as people write them."""

from __future__ import annotations

import ipaddress
import re

from l0_infra_os._kit.problems import BadInput

MOST = 65536
RANGE = re.compile(
    r"^(?:(?P<scheme>https?)://)?(?P<host>[^\s/:\[\]]+?(?:/\d+)?|\[[0-9a-fA-F:]+\])"
    r"(?::(?P<port>\d+)(?:-(?P<last>\d+))?)?$"
)
HOW = "write 10.0.0.5, 10.0.0.10-10.0.0.50, 10.0.0.0/24, host:8000 or host:8101-8105, https:// before it"


def expand(text: str) -> list[str]:
    """The addresses in a range, in order: `127.0.0.1:8101-8103` is three of them.

    A scheme stays in front of each.  `BadInput` for anything that is no range of at most 65536.
    """
    match = RANGE.match(text.strip())
    if not match:
        raise BadInput(f"{text!r} is no address range", field="addresses", do=HOW)
    scheme = f"{match['scheme']}://" if match["scheme"] else ""
    hosts, ports = _hosts(match["host"], text), _ports(match["port"], match["last"], text)
    if len(hosts) * len(ports) > MOST:
        raise BadInput(f"{text!r} has more than {MOST} addresses", field="addresses", do="split it")
    return [f"{scheme}{host}{port}" for host in hosts for port in ports]


def expand_all(texts: list[str]) -> list[str]:
    """All addresses of several ranges, each once."""
    return list(dict.fromkeys(address for text in texts for address in expand(text)))


def _hosts(host: str, text: str) -> list[str]:
    try:
        if "/" in host:
            network = ipaddress.ip_network(host, strict=False)
            if network.num_addresses > MOST:
                raise BadInput(f"{text!r} has more than {MOST} addresses", field="addresses", do="split it")
            return [str(address) for address in network.hosts()]
        first, dash, last = host.partition("-")
        if dash and _is_ipv4(first):
            low, high = int(ipaddress.IPv4Address(first)), int(ipaddress.IPv4Address(last))
            if not low <= high < low + MOST:
                raise BadInput(f"{text!r} is no range", field="addresses", do=HOW)
            return [str(ipaddress.IPv4Address(value)) for value in range(low, high + 1)]
    except ValueError as error:
        raise BadInput(f"{text!r}: {error}", field="addresses", do=HOW) from error
    return [host]


def _is_ipv4(text: str) -> bool:
    return re.fullmatch(r"\d+(\.\d+){3}", text) is not None


def _ports(first: str | None, last: str | None, text: str) -> list[str]:
    if first is None:
        return [""]
    low, high = int(first), int(last or first)
    if not 1 <= low <= high <= 65535:
        raise BadInput(f"{text!r}: ports are 1 to 65535, the first before the last", field="addresses")
    return [f":{port}" for port in range(low, high + 1)]
