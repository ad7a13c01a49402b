"""The models that can hold a conversation; each is a `core.ports.Model`. No other package imports pydantic-ai.

    scripted/       the offline model: fixed rules, no key, no network
    client.py       the port for all others: chooses the models of a request, with fallback
    config.py       configuration and call reports   probe.py      small calls that check a model
    provider_model.py  one model of a provider       rate_limit.py    queue, limits and fairness of a provider
    providers.py    models from configuration        pricing.py       what calls cost
    messages.py     entries to messages              provider_parts.py  parts only their provider understands
    request_params.py  the form of a request         response.py      answers to steps
    errors.py       errors of the library to ours    overflow.py      requests that were too long
    compatible.py   OpenAI's protocol as servers implement it
    written_calls.py  tool calls in a text           thoughts.py      thinking apart from text

Only `scripted`, `client`, `config`, `rate_limit`, `pricing` and `probe` load without pydantic-ai; the others are
imported where they are needed.
"""
