"""A short run of the model; ``python -m tests.model`` is the long one."""

from __future__ import annotations

import pytest
import redis
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from django_echomq.wire.endpoint import Endpoint
from tests.model.machine import Forgetful, machine


@pytest.mark.once
@pytest.mark.timeout(600)  # a failure is made small before it is shown, which takes its time
def test_a_queue_behaves_as_its_model(endpoint: Endpoint, raw: redis.Redis) -> None:
    client = Forgetful(endpoint)
    run_state_machine_as_test(
        machine(client, raw),
        settings=settings(
            max_examples=40,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    client.close()
