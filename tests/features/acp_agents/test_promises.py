"""What `tenex agents show` says of an agent of others follows from what it may reach."""

from tenex.features.acp_agents.promises import promises


def test_models_of_the_settings_are_measured_and_there_is_no_network() -> None:
    said = promises(["anthropic:claude-a", "anthropic:claude-b"], [])
    assert any("anthropic:claude-a, anthropic:claude-b through the daemon" in each for each in said.held)
    assert "It has no network." in said.held
    assert not any("hosts" in each for each in said.not_held)


def test_no_limit_is_promised_at_hosts_of_a_login() -> None:
    said = promises([], ["api.vendor.example"])
    assert not any("measured" in each for each in said.held)
    assert any("reaches api.vendor.example" in each for each in said.held)
    assert any("no limit but time" in each for each in said.not_held)
