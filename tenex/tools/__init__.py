"""The tools agents work with: a registry with the gate at call time, and the tools that ship with the daemon."""
