"""REST, pages and the gateway in one application."""
