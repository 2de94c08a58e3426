"""The ranked board as a pure fold of finished ranked jobs: pooled entries, standing runs, tie bands."""
