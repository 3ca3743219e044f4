"""BMCs: Redfish through sushy, one pooled session each."""
