"""The tools agents work with: a registry with the gate at call time, and the tools that ship with the daemon.

Never: decide what comes after a call, or hold a conversation's state; both are the core's.
"""
