"""REST and pages: two tenants never see each other, problems are RFC 9457, pages in two languages."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from l0_infra_os._kit.tokens import TokenStore
from l0_infra_os.api import Declared, InfraOs, Settings, create_app
from l0_infra_os.testing import Farm, MemoryFabric
from l0_infra_os.testing.farm import PASSWORD, USERNAME

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFarmFarmFarmFarmFarmFarmFarmFarmFarmFarmFarm test"


class NoBoot:
    def reserve(self, hosts: Any, *, boot_url: str) -> None:
        """Farm machines ask by themselves."""


@pytest.fixture
def app(l0_settings: Settings) -> FastAPI:
    return create_app(l0_settings, carry_on=False, given_fabric=MemoryFabric(), given_boot=NoBoot())


@pytest.fixture
def tokens(l0_settings: Settings) -> dict[str, str]:
    store = TokenStore(l0_settings.tokens_file)
    return {
        "operator": store.admin_token(),
        "red": store.create("red-user", "red"),
        "blue": store.create("blue-user", "blue"),
    }


class Client:
    """A client with one token."""

    def __init__(self, app: FastAPI, token: str | None) -> None:
        self.http = TestClient(app)
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def __call__(self, method: str, path: str, body: Any = None, *, status: int = 200) -> Any:
        answer = self.http.request(method, f"/api/v1{path}", json=body, headers=self.headers)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None


@pytest.fixture
def two_tenants(ready: InfraOs, app: FastAPI, tokens: dict[str, str]) -> tuple[Client, Client, Client]:
    operator = Client(app, tokens["operator"])
    for name in ("red", "blue"):
        operator("POST", "/tenants", {"name": name, "quota_nodes": 3}, status=201)
    return operator, Client(app, tokens["red"]), Client(app, tokens["blue"])


def test_neither_tenant_sees_the_others_things(
    two_tenants: tuple[Client, Client, Client], ready: InfraOs
) -> None:
    operator, red, blue = two_tenants
    mine = red("POST", "/leases", {"nodes": 2}, status=201)
    theirs = blue("POST", "/leases", {"nodes": 1}, status=201)
    node = theirs["members"][0]
    assert {row["tenant"] for row in red("GET", "/nodes")} == {"red"}
    assert {row["bmc"] for row in red("GET", "/nodes")} == {None}
    assert [row["id"] for row in red("GET", "/leases")] == [mine["id"]]
    assert [row["name"] for row in red("GET", "/tenants")] == ["red"]
    assert {row["tenant"] for row in red("GET", "/meter")} <= {"red"}
    assert {row["tenant"] for row in red("GET", "/audit")} == {"red"}
    assert {row["tenant"] for row in red("GET", "/inventory")["nodes"]} == {"red"}
    unknown = red("GET", "/nodes/no-such-node", status=404)
    for method, path, body in [
        ("GET", f"/nodes/{node}", None),
        ("GET", f"/nodes/{node}/timeline", None),
        ("POST", f"/nodes/{node}/power", {"action": "off"}),
        ("GET", f"/leases/{theirs['id']}", None),
        ("GET", f"/leases/{theirs['id']}/plan?image=debian", None),
        ("DELETE", f"/leases/{theirs['id']}", None),
        ("POST", f"/leases/{theirs['id']}/provision", {"image": "debian", "ssh_keys": [KEY]}),
        ("POST", f"/leases/{theirs['id']}/grow", {"nodes": 1}),
        ("POST", f"/leases/{theirs['id']}/shrink", {"nodes": [node]}),
        ("GET", "/inventory?tenant=blue", None),
        ("POST", "/leases", {"tenant": "blue", "nodes": 1}),
    ]:
        answer = red(method, path, body, status=404)
        assert answer["type"] == unknown["type"]
    assert operator("GET", f"/leases/{theirs['id']}")["state"] == "reserved"
    assert len(operator("GET", "/nodes")) == 4


def test_what_only_an_operator_may_do(two_tenants: tuple[Client, Client, Client]) -> None:
    _, red, _ = two_tenants
    for method, path, body in [
        ("POST", "/tenants", {"name": "x"}),
        ("DELETE", "/tenants/blue", None),
        ("POST", "/enroll", {"addresses": ["127.0.0.1:1"], "username": "u", "password": "p"}),
        ("POST", "/inspect", {}),
        ("POST", "/nodes/m1/quarantine", {"reason": "x"}),
        ("POST", "/nodes/m1/repair", None),
        ("DELETE", "/nodes/m1", None),
    ]:
        assert red(method, path, body, status=403)["try"] == "use an operator's token"


def test_without_a_token_or_with_a_wrong_one(app: FastAPI) -> None:
    assert Client(app, None)("GET", "/nodes", status=401)["title"] == "no token"
    assert Client(app, "ogai-wrong")("GET", "/nodes", status=401)["title"] == "unknown token"


def test_the_quota_is_a_409_with_what_to_do(two_tenants: tuple[Client, Client, Client]) -> None:
    _, red, _ = two_tenants
    answer = red("POST", "/leases", {"nodes": 4}, status=409)
    assert answer["title"] == "tenant red would hold 4 nodes, its quota is 3"
    assert "at most 3" in answer["try"]


def test_a_wrong_field_is_named(two_tenants: tuple[Client, Client, Client]) -> None:
    operator, red, _ = two_tenants
    assert red("POST", "/leases", {"nodes": 0}, status=422)["field"] == "nodes"
    assert red("POST", "/leases", {"nodes": 1, "colour": 1}, status=422)["field"] == "colour"
    assert operator("POST", "/tenants", {"name": "A B"}, status=422)["field"] == "tenant"
    assert operator("GET", "/meter?since=9&until=3", status=422)["field"] == "until"


def test_a_life_over_rest(
    enrolled: InfraOs, farm: Farm, l0_settings: Settings, tokens: dict[str, str], image_file: Any
) -> None:
    """The application carries nodes on by itself; nothing else runs."""
    enrolled.add_image("debian", image_file, format="tar.zst")
    app = create_app(l0_settings, given_fabric=MemoryFabric(), given_boot=NoBoot())
    with TestClient(app):
        operator = Client(app, tokens["operator"])

        def until(path: str, state: str) -> Any:
            for _ in range(600):
                row = operator("GET", path)
                if row["state"] == state:
                    return row
                time.sleep(0.05)
            raise AssertionError(row)

        assert len(operator("POST", "/inspect", {}, status=202)["nodes"]) == 4
        for node in ("m1", "m2", "m3", "m4"):
            until(f"/nodes/{node}", "available")
        operator("POST", "/tenants", {"name": "red"}, status=201)
        lease = operator("POST", "/leases", {"tenant": "red", "nodes": 2}, status=201)
        path = f"/leases/{lease['id']}"
        assert len(operator("GET", f"{path}/plan?image=debian")) == 2
        operator("POST", f"{path}/provision", {"image": "debian", "ssh_keys": [KEY]}, status=202)
        until(path, "active")
        assert operator("POST", f"/nodes/{lease['members'][0]}/power", {"action": "cycle"})["power"] == "on"
        operator("DELETE", path, status=202)
        until(path, "ended")
        assert 'infra_os_nodes{state="available"} 4.0' in TestClient(app).get("/metrics").text


def test_enrolment_over_rest_names_the_duplicate(app: FastAPI, tokens: dict[str, str]) -> None:
    rows = [{"address": f"127.0.0.1:{port}", "macs": ["02:00:00:00:00:01"]} for port in (1, 2)]
    body = {"username": USERNAME, "password": PASSWORD, "declared": rows}
    answer = Client(app, tokens["operator"])("POST", "/enroll", body, status=422)
    assert "is declared for 127.0.0.1:1 and for 127.0.0.1:2" in answer["title"]


@pytest.fixture
def browser(app: FastAPI, tokens: dict[str, str]) -> TestClient:
    client = TestClient(app, headers={"accept": "text/html"})
    assert client.post("/login", data={"token": tokens["operator"]}).status_code == 200
    return client


PAGES = ("/", "/leases", "/tenants", "/meter", "/audit", "/fragments/fleet", "/fragments/leases")


@pytest.mark.parametrize("path", PAGES)
def test_an_empty_site_has_pages_that_say_what_to_do(browser: TestClient, path: str) -> None:
    answer = browser.get(path)
    assert answer.status_code == 200
    assert re.search('class="(card|empty|card empty)', answer.text)


def test_pages_show_the_fleet_in_both_languages(ready: InfraOs, browser: TestClient) -> None:
    lease = ready.lease("demo", nodes=1)
    assert re.search(r"<strong>m1</strong> <span class=\"badge info\">leased</span>", browser.get("/").text)
    assert "已租出" in browser.get("/?lang=zh").text
    page = browser.get(f"/nodes/{lease.members[0]}?lang=zh").text
    assert "时间线" in page
    assert lease.id in browser.get("/leases?lang=en").text


def test_every_word_of_the_pages_has_a_chinese_one() -> None:
    import importlib.resources

    from l0_infra_os._kit.web import SHELL_MESSAGES
    from l0_infra_os.core.lifecycle import TRANSITIONS, LeaseState, NodeState
    from l0_infra_os.web.messages import MESSAGES
    from l0_infra_os.web.pages import BADGES

    known = {**SHELL_MESSAGES, **MESSAGES}
    for template in (importlib.resources.files("l0_infra_os") / "web" / "templates").iterdir():
        for word in re.findall(r"""\bt\(["']([^"']+)["']\)""", template.read_text()):
            assert word in known, f"{template.name}: {word!r}"
    for state in (*NodeState, *LeaseState):
        assert state.value in MESSAGES
        assert state.value in BADGES
    assert {event for _, event in TRANSITIONS} - set(MESSAGES) == set()


def test_the_audit_page_is_for_people(ready: InfraOs, browser: TestClient) -> None:
    ready.lease("demo", nodes=2)
    page = browser.get("/audit").text
    assert "members: m1, m2" in page
    assert "None" not in page


def test_a_lease_by_the_form_and_its_release_by_the_button(ready: InfraOs, browser: TestClient) -> None:
    answer = browser.post("/leases", data={"tenant": "demo", "nodes": "2", "spares": "0"})
    assert answer.status_code == 200
    lease = ready.leases()[0]
    gone = browser.post(f"/leases/{lease.id}/release", headers={"hx-request": "true"})
    assert gone.headers["hx-redirect"] == "/leases"
    assert ready.lease_of(lease.id).state == "releasing"
    other_site = browser.post(f"/leases/{lease.id}/release", headers={"origin": "https://evil.example"})
    assert other_site.status_code == 403


def test_declared_machines_are_a_published_name() -> None:
    assert Declared("h:1").macs == ()
