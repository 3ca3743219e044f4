"""The database: tables, migrations, transactions that leave an audit row."""
