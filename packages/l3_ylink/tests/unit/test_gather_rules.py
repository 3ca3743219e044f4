"""The crawler's rules by themselves: addresses, robots.txt, traps, links, what is public, the frontier."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l3_ylink.datakit.gather.crawl.frontier import PAGE, Frontier, Visit
from l3_ylink.datakit.gather.crawl.links import decoded, page_links, sitemap_links
from l3_ylink.datakit.gather.crawl.plan import in_domains, is_public, parse_plan
from l3_ylink.datakit.gather.crawl.traps import STALE, Template, content_marks
from l3_ylink.datakit.gather.crawl.urls import address, path_trap


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://Example.org", "http://example.org/"),
        ("http://example.org:80/a", "http://example.org/a"),
        ("http://example.org/a/./b/../c", "http://example.org/a/c"),
        ("http://example.org/%7euser/%e4", "http://example.org/~user/%E4"),
        ("http://example.org/a?b=2&a=1", "http://example.org/a?a=1&b=2"),
        ("http://example.org/a;jsessionid=1A2B?x=1", "http://example.org/a?x=1"),
        ("http://example.org/a?PHPSESSID=99&x=1&utm_source=mail", "http://example.org/a?x=1"),
        ("http://example.org/a#part", "http://example.org/a"),
        ("http://例子.example/路", "http://xn--fsqu00a.example/%E8%B7%AF"),
    ],
)
def test_one_page_has_one_key(one: str, other: str) -> None:
    """RFC 3986, 6.2.2 and 6.2.3, and no session in it."""
    first, second = address(one), address(other)
    assert first is not None
    assert second is not None
    assert first.key == second.key


@pytest.mark.parametrize(
    "link",
    [
        "mailto:a@b.c",
        "javascript:x()",
        "http://u:p@h/",
        "http://[::1",
        "http://h:99999/",
        "http://a b/",
    ],
)
def test_what_is_no_page_has_no_address(link: str) -> None:
    assert address(link, "http://example.org/") is None


@settings(max_examples=300)
@given(st.text(max_size=40), st.text(max_size=40))
def test_any_link_on_any_page_has_a_stable_address_or_none(link: str, base: str) -> None:
    found = address(link, f"http://example.org/{base}")
    if found is not None:
        again = address(found.url)
        assert again is not None
        assert (again.url, again.key, again.origin) == (found.url, found.key, found.origin)
        assert found.url.isascii()


@pytest.mark.parametrize(
    ("link", "path"),
    [
        ("g", "/b/c/g"),
        ("../g", "/b/g"),
        ("../../../g", "/g"),
        ("/./g", "/g"),
        ("?y=1", "/b/c/d?y=1"),
        ("", "/b/c/d"),
    ],
)
def test_links_are_resolved_as_the_rfc_says(link: str, path: str) -> None:
    """RFC 3986, 5.4."""
    found = address(link, "http://a.example/b/c/d#s")
    assert found is not None
    assert found.url == f"http://a.example{path}"


def shapes(*paths: str) -> set[str]:
    found = [address(f"http://h.example/{path}") for path in paths]
    return {place.shape for place in found if place is not None}


def test_shapes_take_numbers_and_keys_out_and_leave_words() -> None:
    assert len(shapes("day/2024-01-05?v=1", "day/2031-12-31?v=9", "day/1999-02-28?v=22")) == 1
    assert len(shapes("tides", "moons", "a-title-of-several-words")) == 3


def test_endless_paths_are_told_from_long_ones() -> None:
    assert path_trap("http://h.example/" + "a/" * 5) == "repeating_path"
    assert path_trap("http://h.example/" + "/".join(map(str, range(40)))) == "deep_path"
    assert path_trap("http://h.example/?q=" + "x" * 3_000) == "long_address"
    assert path_trap("http://h.example/docs/en/guide/part/chapter/section/page.html") == ""


def test_a_template_closes_after_pages_that_bring_nothing_and_not_before() -> None:
    state = Template()
    for _ in range(STALE - 1):
        state = state.after(fresh=False)
    assert not state.closed
    assert not state.after(fresh=True).closed
    assert state.after(fresh=True).stale == 0
    assert state.after(fresh=False).closed
    assert content_marks(b"<p>Day 1</p>")[1] == content_marks(b"<p>Day   31</p>")[1]


@pytest.mark.parametrize(
    ("address_", "public"),
    [
        ("8.8.8.8", True), ("2001:4860:4860::8888", True),
        ("127.0.0.1", False), ("10.1.2.3", False), ("172.31.0.1", False), ("192.168.1.1", False),
        ("169.254.169.254", False), ("100.64.0.1", False), ("0.0.0.0", False), ("224.0.0.1", False),
        ("::1", False), ("fe80::1%eth0", False), ("fd00::1", False), ("::ffff:10.0.0.1", False),
        ("64:ff9b::a00:1", False), ("2002:7f00:1::", False), ("::", False), ("255.255.255.255", False),
    ],
)  # fmt: skip
def test_only_addresses_of_the_public_internet_are_public(address_: str, public: bool) -> None:
    """IANA's special-purpose registries (RFC 6890), and IPv4 inside IPv6."""
    assert is_public(address_) is public


def test_domains_hold_what_is_below_them_only() -> None:
    assert in_domains("www.example.org", ["example.org"])
    assert in_domains("EXAMPLE.ORG.", ["example.org"])
    assert not in_domains("notexample.org", ["example.org"])
    assert not in_domains("example.org.evil.net", ["example.org"])
    plan = parse_plan({"seeds": ["http://a.example/", "http://b.example:8080/"]})
    assert plan.allows("https://a.example")
    assert plan.allows("http://b.example:8080")
    assert not plan.allows("http://b.example")
    assert not plan.allows("http://www.a.example")


ROBOTS = b"""
# comment
User-agent: *
Disallow: /private
Allow: /private/open
Disallow: /*.pdf$
Crawl-delay: 2.5
Request-rate: 1/4s

User-agent: ylink
User-agent: other
Disallow: /x
Crawl-delay: 7
Sitemap: https://a.example/map.xml
"""


@pytest.mark.skipif(
    importlib.util.find_spec("protego") is None, reason="needs protego: pip install 'l3-ylink[gather]'"
)
def test_robots_rules_and_delays_are_the_most_special_ones_and_the_longest() -> None:
    """RFC 9309, 2.2: the group that names us, else `*`; the longest rule wins."""
    from l3_ylink.datakit.gather.crawl.robots import Robots

    anyone = Robots("someone", 200, ROBOTS)
    assert not anyone.allows("https://a.example/private/x")
    assert anyone.allows("https://a.example/private/open/x")
    assert not anyone.allows("https://a.example/a.pdf")
    assert anyone.allows("https://a.example/a.pdf?x")
    assert anyone.delay(1) == 4.0
    assert anyone.delay(9) == 9
    ours = Robots("ylink", 200, ROBOTS)
    assert not ours.allows("https://a.example/x")
    assert ours.allows("https://a.example/private/x")
    assert ours.delay(1) == 7
    assert ours.sitemaps() == ["https://a.example/map.xml"]
    assert Robots("ylink", 404).allows("https://a.example/x")
    for status in (500, 503, 429, 0):
        assert not Robots("ylink", status).allows("https://a.example/")
    assert Robots("ylink", 200, b"\xff\xfe\x00" * 99).allows("https://a.example/")
    assert Robots("ylink", 200, b"User-agent: *\nDisallow: /\n" * 60_000).delay(1) == 1


def test_links_are_those_that_a_reader_could_follow() -> None:
    page = (
        b'<html><head><base href="/sub/"><link rel="next" href="p2"><link rel="stylesheet" href="s.css">'
        b'<meta http-equiv="refresh" content="5; url=moved"></head><body><a href="a">1</a>'
        b'<a href="b" rel="nofollow">2</a>'
        b'<map><area href="c"></map><frame src="d"><iframe src="e"></iframe>'
        b'<a href="#top">top</a><a>none</a><img src="i.png">'
    )
    found = page_links(page, "http://h.example/x")
    assert found.base == "/sub/"
    assert set(found.links) == {"p2", "moved", "a", "c", "d", "e"}
    assert (
        page_links(b'<meta name="ROBOTS" content="NoFollow"><a href="a">1</a>', "http://h.example/").links
        == []
    )
    for odd in (b"", b"\0\0", b"<", "<a href='中'>".encode("gb18030"), b"<a href=x>" * 9_000):
        assert len(page_links(odd, "http://h.example/").links) <= 5_000


def test_sitemaps_of_every_kind_are_read_and_their_entities_are_not() -> None:
    import gzip

    space = b"xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'"
    xml = b"<urlset " + space + b"><url><loc> http://h.example/a </loc></url></urlset>"
    assert sitemap_links(xml) == (["http://h.example/a"], [])
    assert sitemap_links(gzip.compress(xml)) == (["http://h.example/a"], [])
    index = b"<sitemapindex><sitemap><loc>http://h.example/2.xml</loc></sitemap></sitemapindex>"
    assert sitemap_links(index) == ([], ["http://h.example/2.xml"])
    assert sitemap_links(b"http://h.example/a\nhttp://h.example/b\n")[0] == [
        "http://h.example/a",
        "http://h.example/b",
    ]
    assert sitemap_links(b"<broken") == ([], [])
    bomb = b'<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]><urlset><url><loc>&f;</loc></url></urlset>'
    assert not any("root" in link for link in sitemap_links(bomb)[0])
    assert len(decoded(gzip.compress(b"x" * 10**7), "gzip", 1_000)) == 1_000


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(["add", "visit", "again", "die", "finish"]), max_size=40))
def test_the_frontier_forgets_nothing_that_was_committed(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    file = tmp_path_factory.mktemp("frontier") / "f.sqlite"
    frontier = Frontier(file)
    number, _ = frontier.begin()
    waiting: set[str] = set()
    done: set[str] = set()
    for count, step in enumerate(steps):
        pages = frontier.next_pages("http://h.example", 100)
        assert {page.url for page in pages} == waiting
        if step == "add":
            found = address(f"http://h.example/{count}")
            assert found is not None
            with frontier.whole():
                assert frontier.add(found, kind=PAGE, depth=0)
            assert not frontier.add(found, kind=PAGE, depth=0)
            waiting.add(found.url)
        elif step == "visit" and pages:
            with frontier.whole():
                frontier.visited(pages[0], Visit("new", 200))
            waiting.discard(pages[0].url)
            done.add(pages[0].url)
        elif step == "again" and pages:
            frontier.again(pages[0])
        elif step == "die":
            try:
                with frontier.whole():
                    for page in pages:
                        frontier.visited(page, Visit("new", 200))
                    raise KeyboardInterrupt
            except KeyboardInterrupt:
                frontier.close()
            frontier = Frontier(file)
            assert frontier.begin() == (number, True)
        elif step == "finish":
            frontier.finish()
            number += 1
            assert frontier.begin() == (number, False)
            waiting, done = waiting | done, set()
    frontier.close()


def test_a_plan_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    from l3_ylink._kit.problems import BadInput

    for wrong, word in (
        ({"seeds": ["http://a.example/"], "domains": ["b.example"]}, "outside"),
        ({"seeds": ["http://a.example/"], "agent": "a b"}, "agent"),
        ({"seeds": ["http://a.example/"], "delay": -1}, "delay"),
        ({"seeds": ["http://a.example/"], "speed": 1}, "speed"),
    ):
        with pytest.raises(BadInput, match=word):
            parse_plan(wrong)
