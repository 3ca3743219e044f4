"""The state of the site: tables, and the transactions that change them."""
