"""The trusted measuring process: arena, one call, bursts, jobs."""
