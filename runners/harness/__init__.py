"""What lies inside a box: standard library and torch only."""
