"""The relay of tests with a daemon."""

from tests.service.conftest import relay as relay
