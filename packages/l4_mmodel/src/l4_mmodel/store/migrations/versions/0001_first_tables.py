"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "l4_audit",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("by", sa.String(length=128), nullable=False),
        sa.Column("action", sa.String(length=32), nullable=False),
        sa.Column("target", sa.String(length=256), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.Column("chain", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_l4_audit_tenant"), "l4_audit", ["tenant"], unique=False)
    op.create_table(
        "l4_datasets",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(length=71), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("manifest", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("created_by", sa.String(length=128), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("tenant", "digest"),
        sa.UniqueConstraint("tenant", "name", "number"),
    )
    op.create_table(
        "l4_generation",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("value", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "l4_keys",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("hint", sa.String(length=16), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("models", sa.JSON(), nullable=True),
        sa.Column("requests_per_minute", sa.Integer(), nullable=True),
        sa.Column("tokens_per_minute", sa.Integer(), nullable=True),
        sa.Column("parallel", sa.Integer(), nullable=True),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("created_by", sa.String(length=128), nullable=False),
        sa.Column("expires_at", sa.Float(), nullable=True),
        sa.Column("revoked_at", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("sha256"),
        sa.UniqueConstraint("tenant", "name"),
    )
    op.create_table(
        "l4_models",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("type", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("last_number", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("tenant", "name"),
    )
    op.create_table(
        "l4_usage",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("key", sa.String(length=63), nullable=False),
        sa.Column("model", sa.String(length=128), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("prompt_tokens", sa.Integer(), nullable=False),
        sa.Column("completion_tokens", sa.Integer(), nullable=False),
        sa.Column("exact", sa.Boolean(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.Column("first_token_s", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_l4_usage_at"), "l4_usage", ["at"], unique=False)
    op.create_table(
        "l4_alias_history",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("model_id", sa.Integer(), nullable=False),
        sa.Column("alias", sa.String(length=63), nullable=False),
        sa.Column("number", sa.Integer(), nullable=True),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("by", sa.String(length=128), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["model_id"], ["l4_models.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_l4_alias_history_model_id"), "l4_alias_history", ["model_id"], unique=False)
    op.create_table(
        "l4_dataset_files",
        sa.Column("dataset_id", sa.Integer(), nullable=False),
        sa.Column("path", sa.String(length=512), nullable=False),
        sa.Column("sha256", sa.String(length=71), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["dataset_id"], ["l4_datasets.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("dataset_id", "path"),
    )
    op.create_index(op.f("ix_l4_dataset_files_sha256"), "l4_dataset_files", ["sha256"], unique=False)
    op.create_table(
        "l4_versions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("model_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(length=71), nullable=False),
        sa.Column("base_digest", sa.String(length=71), nullable=True),
        sa.Column("format", sa.String(length=16), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("licence", sa.String(length=128), nullable=False),
        sa.Column("manifest", sa.JSON(), nullable=False),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("created_by", sa.String(length=128), nullable=False),
        sa.ForeignKeyConstraint(
            ["model_id"],
            ["l4_models.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("model_id", "number"),
        sa.UniqueConstraint("tenant", "digest"),
    )
    op.create_index("l4_versions_base", "l4_versions", ["tenant", "base_digest"], unique=False)
    op.create_table(
        "l4_aliases",
        sa.Column("model_id", sa.Integer(), nullable=False),
        sa.Column("alias", sa.String(length=63), nullable=False),
        sa.Column("version_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["model_id"], ["l4_models.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["version_id"],
            ["l4_versions.id"],
        ),
        sa.PrimaryKeyConstraint("model_id", "alias"),
    )
    op.create_table(
        "l4_deployments",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("version_id", sa.Integer(), nullable=True),
        sa.Column("runtime", sa.String(length=32), nullable=False),
        sa.Column("upstream", sa.JSON(), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("changed_at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(
            ["version_id"],
            ["l4_versions.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("tenant", "name"),
    )
    op.create_table(
        "l4_evaluations",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("tenant", sa.String(length=63), nullable=False),
        sa.Column("version_id", sa.Integer(), nullable=False),
        sa.Column("suite", sa.String(length=128), nullable=False),
        sa.Column("suite_digest", sa.String(length=71), nullable=False),
        sa.Column("digest", sa.String(length=71), nullable=False),
        sa.Column("report", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["version_id"], ["l4_versions.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("tenant", "digest"),
    )
    op.create_index(op.f("ix_l4_evaluations_suite_digest"), "l4_evaluations", ["suite_digest"], unique=False)
    op.create_index(op.f("ix_l4_evaluations_version_id"), "l4_evaluations", ["version_id"], unique=False)
    op.create_table(
        "l4_files",
        sa.Column("version_id", sa.Integer(), nullable=False),
        sa.Column("path", sa.String(length=512), nullable=False),
        sa.Column("sha256", sa.String(length=71), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["version_id"], ["l4_versions.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("version_id", "path"),
    )
    op.create_index(op.f("ix_l4_files_sha256"), "l4_files", ["sha256"], unique=False)
    op.execute("INSERT INTO l4_generation (id, value) VALUES (1, 0)")


def downgrade() -> None:
    op.drop_table("l4_files")
    op.drop_table("l4_evaluations")
    op.drop_table("l4_deployments")
    op.drop_table("l4_aliases")
    op.drop_table("l4_versions")
    op.drop_table("l4_dataset_files")
    op.drop_table("l4_alias_history")
    op.drop_table("l4_usage")
    op.drop_table("l4_models")
    op.drop_table("l4_keys")
    op.drop_table("l4_generation")
    op.drop_table("l4_datasets")
    op.drop_table("l4_audit")
