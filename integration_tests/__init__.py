"""What crosses layers: the demo, the console, contracts, browser and chaos tests."""
