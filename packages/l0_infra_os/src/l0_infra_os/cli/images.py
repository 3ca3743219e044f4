"""`infra-os image …`."""

from __future__ import annotations

from pathlib import Path

import typer

from l0_infra_os._kit.command_line import err, out, show

from .common import Json, site

app = typer.Typer(help="Operating system images.", no_args_is_help=True)
COLUMNS = ("name", "format", "size_bytes", "digest")


@app.command("build")
def build(
    name: str = typer.Option("debian", "--name", help="the image's name"),
    disk: bool = typer.Option(False, "--disk", help="a whole disk, for machines with real firmware"),
    as_json: bool = Json,
) -> None:
    """Build Debian as a root file system or as a disk (cached after the first time)."""
    from l0_infra_os.backends.images import build_debian, build_debian_disk

    with site() as infra:
        err.print("building a Debian image; the first time takes minutes", markup=False)
        image = (build_debian_disk if disk else build_debian)(infra.images, name)
    show([vars(image)], COLUMNS, as_json=as_json)


@app.command("add")
def add(
    name: str = typer.Argument(help="the image's name"),
    file: Path = typer.Argument(help="a .tar.zst root or a .raw.zst disk"),
    format_: str = typer.Option(None, "--format", help="tar.zst or raw.zst; by the file's name if not given"),
    digest: str = typer.Option(None, "--digest", help="sha256:… that it must have"),
    as_json: bool = Json,
) -> None:
    """Take an image in."""
    kind = format_ or ("raw.zst" if file.name.endswith(".raw.zst") else "tar.zst")
    with site() as infra:
        image = infra.add_image(name, file, format=kind, digest=digest)
    show([vars(image)], COLUMNS, as_json=as_json)


@app.command("list")
def list_images(as_json: bool = Json) -> None:
    """List images."""
    with site() as infra:
        show([vars(image) for image in infra.images.list()], COLUMNS, as_json=as_json)


@app.command("remove")
def remove(name: str) -> None:
    """Forget an image."""
    with site() as infra:
        infra.images.remove(name)
    out.print(f"image {name} removed", markup=False)
