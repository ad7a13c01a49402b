"""The shell around the core: signals come in, decisions become durable, wanted work is started and cancelled.

inbox -> coordinator -> actor -> reconciler -> stages -> back to the actor as signals
"""
