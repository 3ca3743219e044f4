"""The shell of a layer's web application: problems, login, languages, static files, metrics.

A layer calls `new_web_app` and adds routers.  It can run alone or be mounted under a prefix:
every link goes through `link()`, which knows the prefix.
"""

from __future__ import annotations

import importlib.resources
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Form, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from jinja2 import ChoiceLoader, Environment, FileSystemLoader, StrictUndefined
from prometheus_client import CollectorRegistry, generate_latest
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .config import LayerSettings
from .problems import BadInput, Forbidden, NotFound, Problem, Unauthorized
from .tokens import Principal, TokenStore

PROBLEM_JSON = "application/problem+json"
TOKEN_COOKIE = "ogai_token"  # noqa: S105 (a cookie's name)
LANGUAGE_COOKIE = "ogai_language"
LANGUAGES = ("en", "zh")
SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}
SECURITY_HEADERS = {
    b"content-security-policy": b"default-src 'self'; img-src 'self' data:; "
    b"style-src 'self' 'unsafe-inline'; frame-ancestors 'none'; form-action 'self'; base-uri 'none'",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"same-origin",
}

#: Words of the shell itself; a layer adds its own.
SHELL_MESSAGES = {
    "Sign in": "登录",
    "Sign out": "退出",
    "Token": "令牌",
    "Language": "语言",
    "Not found": "未找到",
    "field": "字段",
    "why": "原因",
    "try": "建议",
    "Nothing here yet": "暂无内容",
    "The operator's token of this machine is in": "本机管理员令牌保存在",
    "Skip to content": "跳到正文",
    "API reference": "接口文档",
    "Back": "返回",
    "Console": "控制台",
}


@dataclass(frozen=True)
class Shell:
    """What pages of one layer have in common."""

    layer: str
    title: str
    version: str
    navigation: Sequence[tuple[str, str]]
    messages: Mapping[str, str]
    templates: Environment
    tokens: TokenStore


def new_web_app(
    *,
    package: str,
    layer: str,
    title: str,
    version: str,
    settings: LayerSettings,
    navigation: Sequence[tuple[str, str]],
    messages: Mapping[str, str],
    lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]] | None = None,
) -> FastAPI:
    """A FastAPI application with the shell; `messages` maps English words to Chinese ones."""
    app = FastAPI(title=title, version=version, lifespan=lifespan, docs_url="/api/docs", redoc_url=None)
    root = Path(str(importlib.resources.files(package)))
    folders = [root / "web" / "templates", root / "_kit" / "templates"]
    app.state.shell = Shell(
        layer=layer,
        title=title,
        version=version,
        navigation=navigation,
        messages={**SHELL_MESSAGES, **messages},
        templates=Environment(
            loader=ChoiceLoader([FileSystemLoader(folder) for folder in folders]),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        ),
        tokens=TokenStore(settings.tokens_file),
    )
    app.state.registry = CollectorRegistry()
    app.state.settings = settings
    app.add_middleware(SecurityHeaders)
    app.mount("/static", StaticFiles(directory=root / "_kit" / "static"), name="static")
    _add_problem_handlers(app)
    _add_shell_routes(app)
    return app


class SecurityHeaders:
    """Adds the security headers to every answer (plain ASGI: streams pass untouched)."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *SECURITY_HEADERS.items()]
            await send(message)

        await self.app(scope, receive, send_with_headers if scope["type"] == "http" else send)


def shell_of(request: Request) -> Shell:
    """The shell of the application that serves this request."""
    shell: Shell = request.app.state.shell
    return shell


def link(request: Request, path: str) -> str:
    """`path` of this layer, with the prefix under which the layer is mounted."""
    return f"{request.scope.get('root_path', '').rstrip('/')}{path}"


def language(request: Request) -> str:
    """`zh` or `en`: by `?lang=`, then the cookie, then the browser's preference."""
    for wanted in (request.query_params.get("lang"), request.cookies.get(LANGUAGE_COOKIE)):
        if wanted in LANGUAGES:
            return str(wanted)
    return "zh" if request.headers.get("accept-language", "").lower().startswith("zh") else "en"


def translator(request: Request) -> Callable[[str], str]:
    """`t(text)`: English words into the language of the request."""
    if language(request) == "en":
        return lambda text: text
    messages = shell_of(request).messages
    return lambda text: messages.get(text, text)


def render(request: Request, template: str, *, status: int = 200, **context: Any) -> HTMLResponse:
    """A page or a fragment.  Templates know `t(text)`, `link(path)`, `shell`, `lang`, `caller`."""
    shell = shell_of(request)
    try:
        who: Principal | None = caller(request)
    except Problem:
        who = None
    html = shell.templates.get_template(template).render(
        request=request,
        shell=shell,
        t=translator(request),
        link=lambda path: link(request, path),
        lang=language(request),
        caller=who,
        **context,
    )
    response = HTMLResponse(html, status_code=status)
    if request.query_params.get("lang") in LANGUAGES:
        response.set_cookie(LANGUAGE_COOKIE, language(request), path="/", samesite="strict")
    return response


def caller(request: Request) -> Principal:
    """Who is calling, by bearer token or by the cookie of a signed-in browser."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return shell_of(request).tokens.authenticate(token.strip())
    if request.method not in SAFE_METHODS:
        _must_be_same_origin(request)
    return shell_of(request).tokens.authenticate(request.cookies.get(TOKEN_COOKIE))


def operator(request: Request) -> Principal:
    """Like `caller`, for routes that only an operator may use."""
    who = caller(request)
    who.must_be_operator()
    return who


Caller = Annotated[Principal, Depends(caller)]
Operator = Annotated[Principal, Depends(operator)]


def _must_be_same_origin(request: Request) -> None:
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2] != request.headers.get("host"):
        raise Forbidden("a request from another site", do="send a bearer token instead of the cookie")


def wants_page(request: Request) -> bool:
    """Whether a browser, not a program, is asking."""
    return "text/html" in request.headers.get("accept", "")


def problem_response(request: Request, problem: Problem) -> Response:
    """A problem as a page for browsers, else as RFC 9457 JSON."""
    if wants_page(request):
        if isinstance(problem, Unauthorized) and request.method == "GET":
            return RedirectResponse(link(request, f"/login?next={request.url.path}"), status_code=303)
        return render(request, "problem.html", status=problem.status, problem=problem)
    headers = {"WWW-Authenticate": "Bearer"} if problem.status == 401 else None
    return JSONResponse(problem.as_json(), problem.status, headers=headers, media_type=PROBLEM_JSON)


def _add_problem_handlers(app: FastAPI) -> None:
    @app.exception_handler(Problem)
    async def on_problem(request: Request, problem: Problem) -> Response:
        return problem_response(request, problem)

    @app.exception_handler(RequestValidationError)
    async def on_validation(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
        problem = BadInput(str(first["msg"]), field=field or "body", do="see the API reference")
        return problem_response(request, problem)

    @app.exception_handler(HTTPException)
    async def on_http(request: Request, error: HTTPException) -> Response:
        problem = NotFound(str(error.detail)) if error.status_code == 404 else Problem(str(error.detail))
        problem.status = error.status_code
        response = problem_response(request, problem)
        response.headers.update(error.headers or {})
        return response


def _add_shell_routes(app: FastAPI) -> None:
    @app.get("/healthz", include_in_schema=False)
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/favicon.ico", include_in_schema=False)
    async def favicon(request: Request) -> Response:
        return RedirectResponse(link(request, "/static/icon.svg"))

    @app.get("/metrics", include_in_schema=False)
    async def metrics(request: Request) -> Response:
        return PlainTextResponse(generate_latest(request.app.state.registry))

    @app.get("/login", include_in_schema=False)
    async def login_page(request: Request, next: str = "") -> Response:
        admin_file = str(shell_of(request).tokens.admin_file)
        return render(request, "login.html", next=_local(next), admin_file=admin_file, problem=None)

    @app.post("/login", include_in_schema=False)
    async def login(
        request: Request, token: Annotated[str, Form()], next: Annotated[str, Form()] = ""
    ) -> Response:
        _must_be_same_origin(request)
        try:
            shell_of(request).tokens.authenticate(token.strip())
        except Unauthorized as problem:
            admin_file = str(shell_of(request).tokens.admin_file)
            context = {"next": _local(next), "admin_file": admin_file, "problem": problem}
            return render(request, "login.html", status=401, **context)
        response = RedirectResponse(_local(next) or link(request, "/"), status_code=303)
        secure = request.url.scheme == "https"
        response.set_cookie(
            TOKEN_COOKIE, token.strip(), path="/", httponly=True, samesite="strict", secure=secure
        )
        return response

    @app.post("/logout", include_in_schema=False)
    async def logout(request: Request) -> Response:
        response = RedirectResponse(link(request, "/login"), status_code=303)
        response.delete_cookie(TOKEN_COOKIE, path="/")
        return response


def _local(path: str) -> str:
    """`path` if it stays on this site, else nothing: no open redirects."""
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) else ""
