"""Numbers of remote signers, read at each scrape."""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from .signing import Signers


def gauges(signers: Signers) -> Iterator[Metric]:
    """By key whether its signer answers, and how many events wait for it."""
    ready = GaugeMetricFamily("tenex_signer_ready", "Whether the remote signer of a key answers.", labels=("key",))
    waiting = GaugeMetricFamily("tenex_signer_waiting", "Events that a remote signer is to sign.", labels=("key",))
    for signer in signers.status():
        ready.add_metric((signer["name"],), signer["state"] == "ready")
        waiting.add_metric((signer["name"],), signer["waiting"])
    yield from (ready, waiting)
