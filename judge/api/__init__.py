"""The HTTP API under `/api/v1`: thin routes that call intake, rules, store and views."""
