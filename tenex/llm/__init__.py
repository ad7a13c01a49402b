"""The model client and the models behind it; each is a `core.ports.Model`. No other package imports pydantic-ai.

    client.py            chooses the models of a request, with fallback
    config.py            configuration
    provider_model.py    one model of a provider
    providers.py         models from configuration
    compatible.py        OpenAI's protocol as servers implement it
    rate_limit.py        queue, limits and fairness of a provider
    messages.py          entries to messages
    request_params.py    parameters of a request
    response.py          answers to steps
    provider_parts.py    parts of an answer that only their provider understands
    written_calls.py     tool calls in a text
    thoughts.py          thinking separated from text
    errors.py            translation of errors
    overflow.py          requests that were too long
    pricing.py           the cost of calls
    probe.py             small calls that check a model
    scripted/            the offline model: fixed rules, no key, no network

Only `scripted`, `client`, `config`, `rate_limit`, `pricing` and `probe` load without pydantic-ai; the others are
imported where they are needed.
"""
