"""Pure logic: state tables and algorithms. No I/O, no clock, no randomness of its own."""
