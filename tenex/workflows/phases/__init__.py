"""The phases: a router chooses agents and phases, `PHASE_TRANSITIONS` permits, quality gates bound the end."""
