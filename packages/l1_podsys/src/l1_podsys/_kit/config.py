"""Settings of a layer: flags > environment > `ogai.toml` > defaults, and where each came from."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

from pydantic import Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from .documents import describe, first_field
from .logs import HIDDEN, SECRET_NAMES, redact
from .problems import BadInput


def home() -> Path:
    """Where state lives unless told otherwise: `$OGAI_HOME`, else `~/.local/share/ogai`."""
    base = os.environ.get("OGAI_HOME")
    return Path(base) if base else Path.home() / ".local" / "share" / "ogai"


def config_file() -> Path:
    """The file with settings: `$OGAI_CONFIG`, else `ogai.toml` in the current folder."""
    return Path(os.environ.get("OGAI_CONFIG", "ogai.toml"))


class Setting(NamedTuple):
    """One row of `config show`."""

    name: str
    value: str
    source: str


class TomlTable(PydanticBaseSettingsSource):
    """The layer's table (`[l2]`) of the configuration file."""

    def __init__(self, settings_cls: type[BaseSettings], table: str) -> None:
        super().__init__(settings_cls)
        self.values = read_table(config_file(), table)

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return self.values.get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        return self.values


def read_table(path: Path, table: str) -> dict[str, Any]:
    """One table of a TOML file; an absent file or table is empty, a broken one a `BadInput`."""
    try:
        value = tomllib.loads(path.read_text("utf-8")).get(table, {})
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"is not valid TOML: {error}", field=str(path)) from error
    if not isinstance(value, dict):
        raise BadInput(f"[{table}] is not a table", field=str(path))
    return value


class LayerSettings(BaseSettings):
    """Base of a layer's settings: sub-classes set `TABLE` ("l2") and add fields with defaults."""

    TABLE: ClassVar[str]

    model_config = SettingsConfigDict(extra="forbid", validate_default=True)

    home: Path = Field(default_factory=home, description="folder with the state of all layers")

    @property
    def state_dir(self) -> Path:
        """This layer's own folder under `home`."""
        return self.home / self.TABLE

    @property
    def tokens_file(self) -> Path:
        """Tokens are shared by the layers of one machine: one login, the same tenants."""
        return self.home / "tokens.json"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, TomlTable(settings_cls, cls.TABLE)

    @classmethod
    def load(cls, **flags: Any) -> Self:
        """The settings, with the given flags (None means not given); a `BadInput` names a fault."""
        try:
            return cls(**{name: value for name, value in flags.items() if value is not None})
        except ValidationError as error:
            names = f"flags, {cls.env_name('…')} or [{cls.TABLE}] in {config_file()}"
            raise BadInput(describe(error), field=first_field(error), do=f"look at {names}") from error

    @classmethod
    def env_name(cls, field: str) -> str:
        return f"OGAI_{cls.TABLE.upper()}_{field.upper()}"

    def explain(self, **flags: Any) -> list[Setting]:
        """Every setting with its value (secrets masked) and the place it came from."""
        table = read_table(config_file(), self.TABLE)

        def source(name: str) -> str:
            if flags.get(name) is not None:
                return "flag"
            if self.env_name(name) in os.environ:
                return f"environment {self.env_name(name)}"
            if name == "home" and "OGAI_HOME" in os.environ:
                return "environment OGAI_HOME"
            return f"{config_file()} [{self.TABLE}]" if name in table else "default"

        return [
            Setting(name, masked(name, str(getattr(self, name))), source(name))
            for name in type(self).model_fields
        ]


def masked(name: str, value: str) -> str:
    """A setting's value for people: tokens and passwords hidden."""
    return HIDDEN if SECRET_NAMES.search(name) and value != "None" else redact(value)
