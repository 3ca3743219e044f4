"""The registry's statements, built once: composing a statement costs more than running it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, bindparam, delete, func, insert, select, update

from l4_mmodel.store.tables import alias_history, aliases, files, models, versions

_pointed = aliases.alias("pointed")
_names = (
    select(func.aggregate_strings(aliases.c.alias, ","))
    .where(aliases.c.model_id == versions.c.model_id, aliases.c.version_id == versions.c.id)
    .scalar_subquery()
    .label("aliases")
)

VERSION: Select[Any] = select(
    versions, models.c.name.label("name"), models.c.type.label("type"), _names
).join(models, versions.c.model_id == models.c.id)
"""A version with its model's name and type, and its aliases joined by commas."""

_of_model = VERSION.where(models.c.tenant == bindparam("tenant"), models.c.name == bindparam("name"))

BY_ID = VERSION.where(versions.c.id == bindparam("id"))
BY_DIGEST = VERSION.where(versions.c.tenant == bindparam("tenant"), versions.c.digest == bindparam("digest"))
BY_NUMBER = _of_model.where(versions.c.number == bindparam("number"))
BY_ALIAS = _of_model.join(
    _pointed, (_pointed.c.model_id == models.c.id) & (_pointed.c.version_id == versions.c.id)
).where(_pointed.c.alias == bindparam("alias"))
BY_COMMIT = _of_model.where(versions.c.digest.startswith(bindparam("beginning"), autoescape=False))
NEWEST = _of_model.order_by(versions.c.number.desc()).limit(1)

COUNT_UP = (
    update(models)
    .where(models.c.tenant == bindparam("of_tenant"), models.c.name == bindparam("of_name"))
    .values(last_number=models.c.last_number + 1)
    .returning(models.c.id, models.c.type, models.c.last_number)
)
"""The model's next number, its row locked until the transaction ends."""

ADD_MODEL = insert(models).returning(models.c.id)
ADD_VERSION = insert(versions).returning(versions.c.id)
ADD_FILES = insert(files)
ADD_ALIAS = insert(aliases)
DROP_ALIAS = delete(aliases).where(
    aliases.c.model_id == bindparam("of_model"), aliases.c.alias == bindparam("of_alias")
)
ADD_MOVE = insert(alias_history)
