"""A watched run: served to this machine only, and made anew when the run writes."""

import contextlib
import json
import socket
import threading
import time
import urllib.error
import urllib.request

import pytest

from coviews import CoviewsError
from coviews.cli import main
from coviews.report import record, watch
from coviews.report.watch import Watched
from report_runs import make_run


@pytest.fixture
def served(tmp_path):
    run = make_run(tmp_path / "run", finished=False)
    with Watched(run) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield run, server
        server.shutdown()


def get(server, path="", host=None):
    request = urllib.request.Request(server.address + path, headers={"Host": host} if host else {})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode()


def test_the_page_follows_the_run(served, monkeypatch):
    run, server = served
    before, version = get(server), get(server, "version")
    assert "6 of 6 epochs" in before
    assert f'"live":"{version}"' in before
    assert get(server) == before
    with open(run / "metrics.jsonl", "a") as file:
        file.write(json.dumps({"kind": "warning", "epoch": 6, "text": "something new"}) + "\n")
    assert get(server, "version") != version
    monkeypatch.setattr(record, "policy_statistics", None)  # policies that were seen are not measured again
    assert "something new" in get(server)


def test_only_the_page_is_served_and_only_to_this_machine(served):
    _, server = served
    assert server.server_address[0] == "127.0.0.1"
    for path, host, code in (("config.yaml", None, 404), ("../etc/passwd", None, 404), ("", "evil.example", 403)):
        with pytest.raises(urllib.error.HTTPError) as error:
            get(server, path, host)
        assert error.value.code == code


def test_what_cannot_be_served_is_said(served, tmp_path, capsys):
    run, server = served
    with pytest.raises(CoviewsError, match="cannot serve on port"):
        Watched(run, server.server_address[1])
    assert main(["watch", str(tmp_path / "nowhere")]) == 2
    assert "there is no run" in capsys.readouterr().err


def raw(server, text, wait=5.0):
    with socket.create_connection(server.server_address, timeout=wait) as client:
        client.sendall(text.encode())
        with contextlib.suppress(ConnectionResetError):
            return client.recv(65536).decode("latin-1")
    return ""


def test_other_hosts_and_other_requests_are_refused(served):
    _, server = served
    port = server.server_address[1]
    for host in ("evil.example", "127.0.0.1", f"localhost.evil.example:{port}", f"0.0.0.0:{port}", "[::1]", ""):
        assert " 403 " in raw(server, f"GET / HTTP/1.0\r\nHost: {host}\r\n\r\n").splitlines()[0]
    assert " 403 " in raw(server, "GET / HTTP/1.0\r\n\r\n").splitlines()[0]
    both = f"GET / HTTP/1.0\r\nHost: localhost:{port}\r\nHost: evil.example\r\n\r\n"
    assert " 403 " in raw(server, both).splitlines()[0]
    assert " 200 " in raw(server, f"GET /version HTTP/1.0\r\nHost: localhost:{port}\r\n\r\n").splitlines()[0]
    for line in ("POST / HTTP/1.0", "PUT /x HTTP/1.0", "nonsense", "GET /../config.yaml HTTP/1.0"):
        answer = raw(server, f"{line}\r\nHost: 127.0.0.1:{port}\r\n\r\n")
        assert " 200 " not in answer.splitlines()[0]
        assert "Python" not in answer


def test_clients_are_bounded_in_number_and_time(served, monkeypatch):
    _, server = served
    monkeypatch.setattr(watch._Handler, "timeout", 4.0)
    host = f"Host: 127.0.0.1:{server.server_address[1]}"
    slow = [socket.create_connection(server.server_address, timeout=10) for _ in range(watch.MOST_CLIENTS)]
    try:
        for client in slow:
            client.sendall(b"GET /version")  # and nothing more
        deadline = time.monotonic() + 5
        while server._free._value and time.monotonic() < deadline:
            time.sleep(0.01)
        assert raw(server, f"GET /version HTTP/1.0\r\n{host}\r\n\r\n") == ""  # turned away
        assert all(client.recv(100) == b"" for client in slow)  # each is cut off in the end
    finally:
        for client in slow:
            client.close()
    deadline = time.monotonic() + 10
    while server._free._value < watch.MOST_CLIENTS and time.monotonic() < deadline:
        time.sleep(0.05)
    assert " 200 " in raw(server, f"GET /version HTTP/1.0\r\n{host}\r\n\r\n")


def test_a_client_that_drips_is_cut_off(served, monkeypatch):
    _, server = served
    monkeypatch.setattr(watch, "LONGEST", 0.5)
    with socket.create_connection(server.server_address, timeout=10) as client:
        cut_off = False
        for _ in range(400):
            try:
                client.sendall(b"G")
            except OSError:
                cut_off = True
                break
            time.sleep(0.05)
    assert cut_off
