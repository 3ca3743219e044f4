"""Mounts the five applications and shows how work flows through them."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import ClassVar, NamedTuple

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse
from jinja2 import ChoiceLoader, FileSystemLoader
from l0_infra_os._kit.config import LayerSettings
from l0_infra_os._kit.web import new_web_app, render

MESSAGES = {
    "Console": "控制台",
    "From a bare server to a served model": "从裸机到在线模型",
    "Each layer stands alone; together they carry one flow.": "各层可单独使用，合起来贯通一条流程。",
    "Open": "打开",
    "Data-centre OS": "智算中心操作系统",
    "Cluster environment": "集群系统环境",
    "Scheduling platform": "调度平台",
    "Data and training": "数据与训练",
    "Model management": "模型管理",
    "Servers with a BMC become imaged, isolated tenant nodes.": "带 BMC 的服务器变成装好系统的隔离节点。",
    "Nodes become a tuned and verified cluster.": "节点变成调优并验证过的集群。",
    "A cluster becomes a pool that places jobs and heals them.": "集群变成能放置并治愈作业的资源池。",
    "Text becomes clean data; data becomes a trained model.": "文本变成干净的数据；数据变成训练好的模型。",
    "Models are registered, evaluated, promoted and served.": "模型经登记、评测、晋级后上线服务。",
    "takes": "输入",
    "gives": "输出",
    "servers": "服务器",
    "documents": "文档",
    "an OpenAI-compatible API": "兼容 OpenAI 的接口",
}


class Stop(NamedTuple):
    """One layer on the flow."""

    key: str
    package: str
    title: str
    sentence: str
    takes: str
    gives: str


FLOW = (
    Stop("l0", "l0_infra_os", "Data-centre OS", "Servers with a BMC become imaged, isolated tenant nodes.",
         "servers", "node-inventory/v1"),
    Stop("l1", "l1_podsys", "Cluster environment", "Nodes become a tuned and verified cluster.",
         "node-inventory/v1", "cluster-report/v1"),
    Stop("l2", "l2_aistation", "Scheduling platform",
         "A cluster becomes a pool that places jobs and heals them.", "cluster-report/v1", "job-record/v1"),
    Stop("l3", "l3_ylink", "Data and training", "Text becomes clean data; data becomes a trained model.",
         "documents", "model-manifest/v1"),
    Stop("l4", "l4_mmodel", "Model management", "Models are registered, evaluated, promoted and served.",
         "model-manifest/v1", "an OpenAI-compatible API"),
)  # fmt: skip


class ConsoleSettings(LayerSettings):
    """The console keeps no state of its own; it shares the tokens of this machine's layers."""

    TABLE: ClassVar[str] = "console"


def create_console(home: Path | None = None) -> FastAPI:
    """The console; `home` replaces the folder in which all layers keep their state."""
    settings = ConsoleSettings.load(home=home)
    layers = {stop.key: _layer_app(stop.package, settings.home) for stop in FLOW}

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:  # a mounted application does not run its own lifespan
            for layer in layers.values():
                await stack.enter_async_context(layer.router.lifespan_context(layer))
            yield

    app = new_web_app(
        package="l0_infra_os",
        layer="console",
        title="Console",
        version="0.1.0",
        settings=settings,
        navigation=[(f"/{stop.key}/", stop.title) for stop in FLOW],
        messages=MESSAGES,
        lifespan=lifespan,
    )
    templates = app.state.shell.templates
    templates.loader = ChoiceLoader(
        [FileSystemLoader(Path(__file__).with_name("templates")), templates.loader]
    )

    @app.get("/", include_in_schema=False)
    async def start(request: Request) -> HTMLResponse:
        return render(request, "start.html", flow=FLOW)

    for key, layer in layers.items():
        app.mount(f"/{key}", layer)
    return app


def _layer_app(package: str, home: Path) -> FastAPI:
    settings = importlib.import_module(f"{package}.settings").Settings.load(home=home)
    application: FastAPI = importlib.import_module(f"{package}.api").create_app(settings)
    return application
