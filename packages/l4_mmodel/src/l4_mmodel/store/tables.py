"""The tables, all with the prefix `l4_`.  Times are seconds since 1970 (UTC)."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData()

models = Table(
    "l4_models",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("tenant", String(63), nullable=False),
    Column("name", String(128), nullable=False),
    Column("type", String(32), nullable=False),
    Column("created_at", Float, nullable=False),
    Column("last_number", Integer, nullable=False, default=0),
    UniqueConstraint("tenant", "name"),
)

versions = Table(
    "l4_versions",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("tenant", String(63), nullable=False),
    Column("model_id", ForeignKey("l4_models.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("digest", String(71), nullable=False),
    Column("base_digest", String(71)),
    Column("format", String(16), nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("licence", String(128), nullable=False),
    Column("manifest", JSON, nullable=False),
    Column("tags", JSON, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("created_by", String(128), nullable=False),
    UniqueConstraint("model_id", "number"),
    UniqueConstraint("tenant", "digest"),
    Index("l4_versions_base", "tenant", "base_digest"),
)

files = Table(
    "l4_files",
    metadata,
    Column("version_id", ForeignKey("l4_versions.id", ondelete="CASCADE"), primary_key=True),
    Column("path", String(512), primary_key=True),
    Column("sha256", String(71), nullable=False, index=True),
    Column("bytes", BigInteger, nullable=False),
)

signatures = Table(
    "l4_signatures",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("version_id", ForeignKey("l4_versions.id", ondelete="CASCADE"), nullable=False),
    Column("signer", String(64), nullable=False),
    Column("bundle", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("created_by", String(128), nullable=False),
    UniqueConstraint("version_id", "signer"),
)

aliases = Table(
    "l4_aliases",
    metadata,
    Column("model_id", ForeignKey("l4_models.id", ondelete="CASCADE"), primary_key=True),
    Column("alias", String(63), primary_key=True),
    Column("version_id", ForeignKey("l4_versions.id"), nullable=False),
)

alias_history = Table(
    "l4_alias_history",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("model_id", ForeignKey("l4_models.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("alias", String(63), nullable=False),
    Column("number", Integer),
    Column("at", Float, nullable=False),
    Column("by", String(128), nullable=False),
    Column("reason", Text, nullable=False),
)

datasets = Table(
    "l4_datasets",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("tenant", String(63), nullable=False),
    Column("name", String(128), nullable=False),
    Column("number", Integer, nullable=False),
    Column("digest", String(71), nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("manifest", JSON, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("created_by", String(128), nullable=False),
    UniqueConstraint("tenant", "name", "number"),
    UniqueConstraint("tenant", "digest"),
)

dataset_files = Table(
    "l4_dataset_files",
    metadata,
    Column("dataset_id", ForeignKey("l4_datasets.id", ondelete="CASCADE"), primary_key=True),
    Column("path", String(512), primary_key=True),
    Column("sha256", String(71), nullable=False, index=True),
    Column("bytes", BigInteger, nullable=False),
)

evaluations = Table(
    "l4_evaluations",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("tenant", String(63), nullable=False),
    Column("version_id", ForeignKey("l4_versions.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("suite", String(128), nullable=False),
    Column("suite_digest", String(71), nullable=False, index=True),
    Column("digest", String(71), nullable=False),
    Column("report", JSON, nullable=False),
    Column("created_at", Float, nullable=False),
    UniqueConstraint("tenant", "digest"),
)

deployments = Table(
    "l4_deployments",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("tenant", String(63), nullable=False),
    Column("name", String(128), nullable=False),
    Column("version_id", ForeignKey("l4_versions.id")),
    Column("runtime", String(32), nullable=False),
    Column("upstream", JSON),
    Column("state", String(16), nullable=False),
    Column("detail", Text, nullable=False),
    Column("document", JSON, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("changed_at", Float, nullable=False),
    UniqueConstraint("tenant", "name"),
)

keys = Table(
    "l4_keys",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("tenant", String(63), nullable=False),
    Column("name", String(63), nullable=False),
    Column("sha256", String(64), nullable=False, unique=True),
    Column("hint", String(16), nullable=False),
    Column("scopes", JSON, nullable=False),
    Column("models", JSON),
    Column("requests_per_minute", Integer),
    Column("tokens_per_minute", Integer),
    Column("parallel", Integer),
    Column("created_at", Float, nullable=False),
    Column("created_by", String(128), nullable=False),
    Column("expires_at", Float),
    Column("revoked_at", Float),
    UniqueConstraint("tenant", "name"),
)

usage = Table(
    "l4_usage",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("at", Float, nullable=False, index=True),
    Column("tenant", String(63), nullable=False),
    Column("key", String(63), nullable=False),
    Column("model", String(128), nullable=False),
    Column("status", Integer, nullable=False),
    Column("prompt_tokens", Integer, nullable=False),
    Column("completion_tokens", Integer, nullable=False),
    Column("exact", Boolean, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("first_token_s", Float),
)

audit = Table(
    "l4_audit",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("at", Float, nullable=False),
    Column("tenant", String(63), nullable=False, index=True),
    Column("by", String(128), nullable=False),
    Column("action", String(32), nullable=False),
    Column("target", String(256), nullable=False),
    Column("detail", JSON, nullable=False),
    Column("chain", String(64), nullable=False),
)

generation = Table(
    "l4_generation",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("value", Integer, nullable=False),
)
"""One row: a number that grows when keys or deployments change, so that gateways reload."""
