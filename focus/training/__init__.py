"""Training: the run's config, schedules, one update, the loop around it, checkpoints."""
