"""Hypothesis profiles: `fast` for every run, `deep` for CI (HYPOTHESIS_PROFILE=deep). No test fails for slowness."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "fast",
    max_examples=100,
    stateful_step_count=40,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("deep", settings.get_profile("fast"), max_examples=1000, stateful_step_count=80)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))
