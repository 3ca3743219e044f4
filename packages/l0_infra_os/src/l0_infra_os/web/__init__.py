"""REST, pages and the in-band provisioning service."""
