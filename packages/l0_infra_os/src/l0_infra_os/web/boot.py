"""The provisioning service: orders, images and reports.  Listens on the management segment only.

No login: what protects it is the one-boot token of `service.orders`, and that management ports
reach this controller and not one another.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, Response

from l0_infra_os._kit.problems import BadInput, Problem, Unavailable
from l0_infra_os._kit.web import PROBLEM_JSON
from l0_infra_os.service import orders
from l0_infra_os.service.site import Site

RETRY_S = 2


def create_provisioning_app(site: Site) -> FastAPI:
    """The application that machines talk to while they boot."""
    app = FastAPI(title="infra-os provisioning", docs_url=None, redoc_url=None, openapi_url=None)
    _add_orders(app, site)
    _add_reports(app, site)
    _add_files(app, site)

    @app.exception_handler(Problem)
    async def on_problem(_request: Request, problem: Problem) -> Response:
        headers = {"Retry-After": str(RETRY_S)} if problem.status == 503 else None
        return JSONResponse(problem.as_json(), problem.status, headers=headers, media_type=PROBLEM_JSON)

    @app.exception_handler(RequestValidationError)
    async def on_validation(_request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        problem = BadInput(str(first["msg"]), field=".".join(map(str, first["loc"][1:])) or "body")
        return JSONResponse(problem.as_json(), problem.status, media_type=PROBLEM_JSON)

    return app


def _add_orders(app: FastAPI, site: Site) -> None:
    @app.get("/boot/{mac}.json")
    def order_json(mac: str) -> dict[str, Any]:
        return orders.order(site, mac)

    @app.get("/boot/{mac}.sh")
    def order_shell(mac: str) -> Response:
        from l0_infra_os.backends.boot import shell_order

        return PlainTextResponse(shell_order(orders.order(site, mac)))

    @app.get("/boot/{mac}/config.tar")
    def personality_tar(mac: str) -> Response:
        from l0_infra_os.backends.boot import personality

        order = orders.order(site, mac)
        if order["action"] != "deploy":
            raise Unavailable("nothing is deployed to this machine now")
        return Response(personality(order), media_type="application/x-tar")

    @app.get("/boot/{mac}")
    def order_ipxe(mac: str) -> Response:
        url = f"{site.boot_url}/{mac}"
        try:
            action = orders.order(site, mac)["action"]
        except Unavailable:
            return PlainTextResponse(f"#!ipxe\nsleep {RETRY_S}\nchain --replace {url}\n")
        return PlainTextResponse(site.boot.script(order_url=f"{url}.sh", local=action == "local"))


def _add_reports(app: FastAPI, site: Site) -> None:
    @app.post("/boot/{mac}/facts")
    def facts(mac: str, report: orders.Facts) -> dict[str, str]:
        orders.take_facts(site, mac, report)
        return {"status": "ok"}

    @app.post("/boot/{mac}/deployed")
    def deployed(mac: str, report: orders.Deployed) -> dict[str, str]:
        orders.take_deployed(site, mac, report)
        return {"status": "ok"}

    @app.post("/boot/{mac}/erased")
    def erased(mac: str, report: orders.Erased) -> dict[str, str]:
        orders.take_erased(site, mac, report)
        return {"status": "ok"}

    @app.post("/boot/{mac}/checkin")
    def check_in(mac: str, report: orders.CheckIn) -> dict[str, str]:
        orders.take_check_in(site, mac, report)
        return {"status": "ok"}

    @app.post("/boot/{mac}/failed")
    def failed(mac: str, report: orders.Refusal) -> dict[str, str]:
        orders.take_failure(site, mac, report)
        return {"status": "ok"}


def _add_files(app: FastAPI, site: Site) -> None:
    @app.get("/images/{digest}")
    def image(digest: str) -> Response:
        return FileResponse(site.images.path(digest), media_type="application/octet-stream")

    @app.get("/boot/files/{name}")
    def file(name: str) -> Response:
        return FileResponse(site.boot.file(name), media_type="application/octet-stream")
