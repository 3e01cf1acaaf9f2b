"""A watched run: served to this machine only, and made anew when the run writes."""

import json
import threading
import urllib.error
import urllib.request

import pytest

from coviews import CoviewsError
from coviews.cli import main
from coviews.report import record
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
