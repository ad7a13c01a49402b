"""The models a conversation can be held with; each is a `core.ports.Model`.

    offline/        a model made of rules; the default, needs neither key nor network
    desk.py         the port for all others: which model is asked, and the next one where it fails
    vendor.py       one model of a vendor: its turn, its time, its stream, what became of the call
    limits.py       calls at once, requests and tokens a minute, pauses a provider asked for
    config.py       what the desk is told            report.py     what it tells of each call
    providers.py    models made from configuration   probe.py      one small call that tries a key
    messages.py     entries to messages              opaque.py     parts only their maker understands
    asking.py       the form of a question           answers.py    answers to steps
    failures.py     the library's errors to ours     prices.py     what calls cost
    compatible.py   OpenAI's protocol as servers speak it    written_calls.py   tool calls in a text
    thoughts.py     thoughts apart from text         overflow.py     requests that were too long, in servers' words

All but `offline`, `desk`, `config`, `report`, `limits`, `prices` and `probe` load pydantic-ai, so they are imported
where they are needed. No other package imports it.
"""
