"""Boxes: where submitted code runs."""
