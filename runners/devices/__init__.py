"""The hardware a runner judges on."""
