"""Messages about a node: seen where the site file says, when they name that node and no other."""

from __future__ import annotations

import json
import socket
import urllib.request
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from gpuassay.facts.fault_notices import alert_sight, hook_sight, ticket_sight
from gpuassay.judge.notices import Notices
from gpuassay.judge.services import Monitoring, Services
from gpuassay.target import TargetError
from gpuassay.watch.notices import TicketEye, eyes, names

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ALERTS = [
    {"labels": {"alertname": "GpuDown", "instance": "n2:9400"}},
    {"labels": {"alertname": "GpuDown", "instance": "n21:9400"}},
    {"labels": {"alertname": "NotYet", "node": "n2"}, "state": "pending"},
]


@pytest.fixture
def alerts() -> Iterator[str]:
    """Serve alerts as Alertmanager and as Prometheus do, and give the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer by the path."""
            v1 = self.path.startswith("/api/v1/")
            body = json.dumps({"data": {"alerts": ALERTS}} if v1 else ALERTS).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Be silent."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("text", "named"),
    [("n2", True), ("n2:9100", True), ("on n2.", True), ("n21", False), ("an2", False), ("n2-b", False)],
)
def test_a_node_is_named_as_a_whole(text: str, named: bool) -> None:  # noqa: FBT001
    """Neither a longer name nor a part of another word is that node."""
    assert names(text, "n2") is named


@pytest.mark.parametrize("monitor", ["alertmanager", "prometheus"])
def test_an_alert_that_fires_for_the_node_is_a_message(alerts: str, monitor: str) -> None:
    """Of a service's alerts those count that fire and name the node."""
    where = Monitoring(alertmanager=alerts) if monitor == "alertmanager" else Monitoring(prometheus=alerts)
    services = Services(monitoring=where)
    with eyes(services, "n2") as (eye,):
        sight = alert_sight(replace(eye.look(), id=f"watch/{eye.name}"), "#1")
    assert (sight.notified, sight.source, sight.words) == (True, monitor, "alert GpuDown")
    with eyes(services, "n3") as (eye,):
        assert alert_sight(eye.look(), "#1").notified is False


def test_a_service_that_does_not_answer_tells_nothing() -> None:
    """Not seen is not the same as no message."""
    with eyes(Services(monitoring=Monitoring(alertmanager="http://127.0.0.1:9")), "n2") as (eye,):
        assert alert_sight(eye.look(), "#1").notified is None


def test_what_is_sent_to_our_receiver_is_kept_if_it_names_the_node() -> None:
    """It listens only while a node is watched, and then no more."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    with eyes(Services(notices=Notices(listen=listen)), "n2") as (eye,):
        assert hook_sight(eye.look(), "#1").notified is False
        for node in ("n1", "n2"):
            body = json.dumps({"text": f"{node} is sick"}).encode()
            urllib.request.urlopen(f"http://{listen}/any", data=body, timeout=5).close()
        sight = hook_sight(eye.look(), "#1")
    assert sight.notified is True
    assert sight.words == '{"text": "n2 is sick"}'
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://{listen}/any", data=b"n2", timeout=5)


def test_an_address_of_another_machine_is_a_mistake() -> None:
    """It is said before anything is broken, with the key to mend."""
    with (
        pytest.raises(TargetError, match=r"\[notices\] listen"),
        eyes(Services(notices=Notices(listen="192.0.2.1:9099")), "n2"),
    ):
        pass


def test_a_ticket_counts_by_its_lines(tmp_path: Path) -> None:
    """A line that names the node is a message; a file that is not there is not known."""
    ticket = tmp_path / "ticket"
    eye = TicketEye(str(ticket), "n2")
    assert ticket_sight(eye.look(), "#1").notified is None
    ticket.write_text("CHG-1 opened\nn21 replaced\n", encoding="utf-8")
    assert ticket_sight(eye.look(), "#1").notified is False
    ticket.write_text("CHG-1 opened\nn2 drained for RMA\n", encoding="utf-8")
    assert ticket_sight(eye.look(), "#1").words == "n2 drained for RMA"
