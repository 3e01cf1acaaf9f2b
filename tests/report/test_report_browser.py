"""The report in a real browser: it loads in silence, its slider works, and hostile names do nothing."""

import json
import os
import shutil
import threading
import time

import pytest

from coviews.choosing.page import choice_page
from coviews.data.load import load_images
from coviews.policies.limits import Limits
from coviews.report.watch import Watched
from coviews.report.write import write_report, write_reports
from made_up_pilots import made_up_choice
from report_runs import HOSTILE, make_run

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium drives the browser: pip install selenium")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="needs Chromium and its driver: apt-get install chromium chromium-driver"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    arguments = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,900"]
    arguments += [f"--user-data-dir={tmp_path_factory.mktemp('browser')}", "--no-first-run"]
    if os.geteuid() == 0:
        arguments.append("--no-sandbox")  # Chromium has none for the superuser
    for argument in arguments:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    run = make_run(folder / "run", policies=3)
    hostile = make_run(folder / HOSTILE.replace("/", "\u2215"), classes=(HOSTILE, "ring"), data="shapes:60")
    with open(hostile / "metrics.jsonl", "a") as file:
        file.write(json.dumps({"kind": "warning", "epoch": 1, "text": HOSTILE}) + "\n")
    other = make_run(folder / "other", views="indepviews")
    choice = folder / "choice.html"
    choice.write_text(choice_page(made_up_choice(HOSTILE), load_images("shapes:40"), Limits()))
    return {
        "choice": choice,
        "run": write_report(run, folder / "run.html"),
        "hostile": write_report(hostile, folder / "hostile.html"),
        "both": write_reports([run, other, hostile], folder / "both.html")[0],
    }


def show(browser, path, *, width=1280, scheme="light"):
    """Load a page, wait for its charts, and return the addresses that it asked for."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    wanted = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)
    browser.get_log("performance"), browser.get_log("browser")
    browser.get(path.as_uri())
    wait_for(browser, "document.documentElement.dataset.ready === 'yes'")
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]


def wait_for(browser, condition):
    end = time.monotonic() + 60
    while not browser.execute_script(f"return {condition}"):
        assert time.monotonic() < end, f"never: {condition}"
        time.sleep(0.05)


def drawn(browser):
    """The number of traces of each chart that has drawn something."""
    return browser.execute_script(
        "return Object.fromEntries([...document.querySelectorAll('.plot')].map((p) =>"
        " [p.dataset.chart, p.querySelector('.main-svg') ? p.data.length : 0]))"
    )


@pytest.mark.parametrize("name", ["run", "hostile", "both"])
def test_pages_load_in_silence_and_without_a_network(browser, pages, name):
    asked = show(browser, pages[name])
    assert asked
    assert all(address.startswith(("file:", "data:", "blob:")) for address in asked), asked
    assert browser.get_log("browser") == []
    counts = drawn(browser)
    assert len(counts) >= 10
    assert all(counts.values()), counts


def test_the_page_of_a_choice(browser, pages):
    show(browser, pages["choice"])
    assert browser.get_log("browser") == []
    assert drawn(browser) == {"effects": 1}
    bars = browser.execute_script("const p = document.querySelector('.plot'); return [p.data[0].x, p.data[0].error_x]")
    assert bars[0] == [4.0, 2.0, -1.0]  # what helps most first
    assert bars[1]["array"] == [1.5, 1.0, 0.5]
    assert browser.execute_script("return document.querySelectorAll('.errorbar').length") == 3
    assert browser.execute_script("return document.querySelectorAll('.pair').length") == 12
    assert browser.execute_script("return window.hacked === undefined && !document.querySelector('[src=x]')")
    assert HOSTILE in browser.execute_script("return document.body.textContent")
    show(browser, pages["choice"], width=360)
    names = browser.execute_script("return [...document.querySelectorAll('.ytick text tspan')].map(t => t.textContent)")
    assert "keep brightness and" in names  # a long name has two lines


def test_charts_have_their_traces(browser, pages):
    show(browser, pages["run"])
    counts = drawn(browser)
    assert counts["loss"] == 1
    assert counts["search-reward"] == 3
    assert counts["current-lines"] == 16  # fifteen operations besides Identity, and what would be even
    assert counts["operations"] == 4
    assert counts["lift"] == counts["co-occurrence"] == counts["levels"] == 1
    cells = browser.execute_script("return document.querySelector('[data-chart=lift]').data[0].z.flat().length")
    assert cells == 15 * 15


def test_the_slider_moves_through_the_policies(browser, pages):
    show(browser, pages["run"])
    read = (
        "return [document.getElementById('frame-label').textContent, document.getElementById('frame-told').textContent,"
        " document.querySelector('[data-chart=lift]').data[0].z[0], "
        " document.querySelector('[data-chart=operations]').data[0].x,"
        " document.querySelector('[data-chart=levels]').getAttribute('aria-label')]"
    )
    before = browser.execute_script(read)
    slider = browser.find_element("id", "frame")
    slider.send_keys("\ue011")  # Home
    first = browser.execute_script(read)
    assert before[0] == "policy learned before epoch 7"
    assert first[0] == "policy learned before epoch 3"
    assert all(one != other for one, other in zip(before, first, strict=True))
    slider.send_keys("\ue014")  # right
    assert browser.execute_script(read)[0] == "policy learned before epoch 5"
    slider.send_keys("\ue010")  # End
    assert browser.execute_script(read) == before


def test_the_queue_can_be_shown_instead(browser, pages):
    show(browser, pages["run"])
    seen = "document.querySelector('[data-chart=queue]').getBoundingClientRect().width"
    assert browser.execute_script(f"return {seen}") == 0
    browser.execute_script("document.querySelector('input[value=queue]').click()")
    wait_for(browser, f"{seen} > 300")
    wait_for(browser, "document.querySelector('[data-chart=queue] .main-svg').getBoundingClientRect().width > 300")
    assert browser.execute_script("return document.querySelector('[data-mixture=current]').hidden")


def test_hostile_names_are_letters(browser, pages):
    folder = HOSTILE.replace("/", "\u2215")
    for name, letters in (("hostile", HOSTILE), ("both", folder)):
        show(browser, pages[name])
        browser.execute_script("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        assert browser.execute_script("return window.hacked === undefined && !document.querySelector('[src=x]')")
        assert letters in browser.execute_script("return document.body.textContent")
        assert browser.execute_script("return [...document.querySelectorAll('b')].length") == 0
    show(browser, pages["hostile"])
    shown = browser.execute_script(
        "return [...document.querySelectorAll('[data-chart=confusion] .ytick text')].map((t) => t.textContent)"
    )
    assert HOSTILE[:39] + "…" in shown


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_wide_and_narrow_light_and_dark(browser, pages, width, scheme):
    for name in ("run", "both", "choice"):
        show(browser, pages[name], width=width, scheme=scheme)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        ink, paper = browser.execute_script(
            "const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]"
            ".map((c) => c.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0))"
        )
        assert (ink > paper) == (scheme == "dark")
        fill = browser.execute_script(
            "return document.querySelector('.xtick text').style.fill.match(/\\d+/g).map(Number)"
        )
        assert (sum(fill[:3]) > 382) == (scheme == "dark")


def test_a_watched_page_shows_what_is_new(browser, tmp_path):
    run = make_run(tmp_path / "run", policies=1)
    with Watched(run) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.get_log("browser")
        browser.get(server.address)
        wait_for(browser, "document.documentElement.dataset.ready === 'yes'")
        with open(run / "metrics.jsonl", "a") as file:
            file.write(json.dumps({"kind": "warning", "epoch": 6, "text": "something new"}) + "\n")
        wait_for(browser, "document.body.textContent.includes('something new')")
        assert browser.get_log("browser") == []
        browser.get("about:blank")
        server.shutdown()


def test_the_page_follows_when_the_scheme_changes(browser, pages):
    show(browser, pages["run"])
    wanted = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)
    wait_for(browser, "document.querySelector('.plot').layout.font.color === '#e8edf1'")
    assert browser.get_log("browser") == []


def test_maps_have_their_whole_width_after_a_phone_was_turned(browser, pages):
    width = "return document.querySelector('[data-chart=lift] .heatmaplayer .hm').getBoundingClientRect().width"
    show(browser, pages["run"], width=1280)
    wide = browser.execute_script(width)
    show(browser, pages["run"], width=360)
    assert browser.execute_script(width) > 200
    assert browser.execute_script("return document.querySelectorAll('[data-chart=lift] .xtick text').length") == 15
    size = {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    wait_for(browser, f"((w) => Math.abs(w - {wide}) < 2)((() => {{ {width} }})())")
