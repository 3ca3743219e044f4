"""The flow from a bare server to a served model: only the wiring between the five layers."""
