"""The report: one file that needs nothing else, read by keyboard, in the dark and in the light."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from kvframe.bench.charts.page import SHAPES, write
from kvframe.bench.study import Study

from . import made
from .browser import Browser, browser
from .conftest import Command

__all__ = ["browser"]

TOKEN = 512  # bytes of KV: 8 KiB a block of 16 tokens
SIZES = [20, 40, 80, 160]
POLICIES = ["lru", "fifo", "lfu", "mq", "arc", "slru", "s3-fifo", "2q", "opt", "opt-forced"]
SHOTS = os.environ.get("KVFRAME_SCREENSHOTS")  # here, since tests have no variables of kvframe
"""Where the pictures of the docs are written, if anywhere."""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("made")
    trace = str(made.write(folder / "made.jsonl", sessions=120))
    replays = Study.run(traces=trace, policies=POLICIES, capacities=SIZES, content=True)
    servers = Study.serve(traces=trace, policies="lru,mq,opt", capacities="80", loads=[1, 4, 16])
    return (replays + servers).of_model(TOKEN)


@pytest.fixture(scope="module")
def path(study: Study, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    study.report(path)
    return path


def numbers(text: str) -> dict[str, Any]:
    """What a page knows."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert found is not None
    told: dict[str, Any] = json.loads(found[1])
    return told


# --- the file -------------------------------------------------------------------------------------


def test_it_names_no_address_and_is_small(path: Path) -> None:
    text = path.read_text()
    assert set(re.findall(r"\w+://[^\s\"'<]+", text)) == {"http://www.w3.org/2000/svg"}
    assert re.findall(r"(?:src|href)=\"(?!#|data:,)", text) == []
    assert len(text) < 500_000
    assert "default-src 'none'" in text


def test_a_name_cannot_end_the_script(tmp_path: Path) -> None:
    wicked = "</script><script>alert(1)</script>{{script}}{{data}}"
    trace = made.write(tmp_path / "t.jsonl", sessions=5)
    study = Study.run(traces=str(trace), policies="lru", capacities=[10])
    text = write(study.gathered, wicked)
    assert text.count("<script") == 2
    assert numbers(text)["title"] == wicked
    assert "alert(1)</script>" not in text


def test_the_command_writes_it(bench: Command, tmp_path: Path) -> None:
    trace = made.write(tmp_path / "t.jsonl", sessions=10)
    bench("run", "--trace", trace, "--policy", "lru,mq", "--capacity", "10,20", "--out", "kept")
    served = bench("serve", "--trace", trace, "--policy", "lru", "--capacity", "40",
                   "--requests", "rows.jsonl", "--format", "json")  # fmt: skip
    (tmp_path / "served.json").write_text(served.stdout)
    done = bench("report", "kept", "served.json", "rows.jsonl", "--title", "Two runs")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "report.html\n")
    told = numbers((tmp_path / "report.html").read_text())
    assert told["title"] == "Two runs"
    assert list(told["families"]) == [
        "hits",
        "lead",
        "gap",
        "misses",
        "load",
        "over-time",
        "requests",
    ]
    # bench serve has a model unless it is told another one.
    assert (told["tokenBytes"], told["assumed"]) == (131072, False)
    shape = "layers=2,kv_heads=2,head_dim=8"
    bench("report", "kept", "--model-shape", shape, "--out", "small.html")
    assert numbers((tmp_path / "small.html").read_text())["tokenBytes"] == 128
    assert "8B" in next(iter(SHAPES))


@pytest.mark.parametrize(
    ("sizes", "title", "doubt"),
    [
        ("10", "with its interval (* real)", "the only difference of 2 policies at one size"),
        ("10,20", "intervals for all 3 comparisons at once", "corrected for all 3 differences"),
    ],
)
def test_one_comparison_is_not_all_of_them(
    bench: Command, tmp_path: Path, sizes: str, title: str, doubt: str
) -> None:
    trace = made.write(tmp_path / "t.jsonl", sessions=10)
    asked = ("--trace", trace, "--policy", "lru,mq", "--capacity", sizes)
    assert title in bench("run", *asked, "--out", "kept").stdout
    bench("report", "kept")
    assert doubt in (tmp_path / "report.html").read_text()


def luminance(color: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_have_the_contrast_that_wcag_asks_for(theme: str) -> None:
    style = resources.files("kvframe.bench.charts").joinpath("document.css").read_text()
    light, dark = re.findall(r":root\S* \{(.*?)\}", style, re.S)[:2]
    colors = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", light if theme == "light" else dark))

    def contrast(one: str, other: str) -> float:
        high, low = sorted((luminance(colors[one]), luminance(colors[other])), reverse=True)
        return (high + 0.05) / (low + 0.05)

    texts = ["ink", "soft", "accent", *(f"s{at}" for at in range(8))]
    assert [name for name in texts if contrast(name, "paper") < 4.5] == []
    assert [name for name in ("ink", "soft", "accent") if contrast(name, "raised") < 4.5] == []
    assert [name for name in ("rest", "focus", "p0", "p2") if contrast(name, "paper") < 3] == []


# --- the browser ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dark", [False, True])
def test_it_opens_without_an_error_or_a_request(browser: Browser, path: Path, dark: bool) -> None:
    browser.open(path, dark=dark)
    console, asked = browser.logged()
    assert console == []
    assert asked == [path.as_uri()]
    back = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert back == ("rgb(17, 21, 27)" if dark else "rgb(255, 255, 255)")
    assert browser.picture().startswith(b"\x89PNG")
    names = browser.run("return [...document.querySelectorAll('h2')].map((h) => h.textContent)")
    assert names[:3] == ["Which policy, for how large a cache?", "Policies in colour",
                         "Hit rate by cache size"]  # fmt: skip
    assert len(names) == 11
    drawn = browser.run("return document.querySelectorAll('figure svg').length")
    assert drawn == len(names) - 2


def test_the_theme_is_the_readers_choice(browser: Browser, path: Path) -> None:
    browser.open(path)
    theme = "return document.documentElement.dataset.theme"
    assert browser.run(theme) == "light"
    browser.run("document.getElementById('theme').focus()")
    browser.press("Enter")
    assert browser.run(theme) == "dark"
    assert browser.run("return document.getElementById('theme').ariaPressed") == "true"


FOCUSED = """
const one = document.activeElement, style = getComputedStyle(one);
const box = one.getBoundingClientRect();
const outline = style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth);
return { tag: one.tagName, outline, wide: box.width, high: box.height,
  seen: box.bottom > 0 && box.top < innerHeight, html: one.outerHTML.slice(0, 80) };
"""


def test_a_keyboard_reaches_everything(browser: Browser, path: Path) -> None:
    browser.open(path)
    count = browser.run(
        "return [...document.querySelectorAll('a, button, select, input, summary, [tabindex]')]"
        ".filter((one) => one.offsetParent).length"
    )
    met = []
    for _ in range(count + 1):
        browser.press("Tab")
        now = browser.run(FOCUSED)
        if now["tag"] == "BODY":
            break
        met.append(now | {"name": browser.driver.switch_to.active_element.accessible_name})
    assert len(met) == count
    for one in met:
        assert one["name"].strip(), one
        assert one["outline"] >= 2, one
        assert one["seen"], one
        assert one["wide"] > 0
        assert one["high"] > 0
    browser.press("Tab", shift=True)
    assert browser.run(FOCUSED)["tag"] != "BODY"


def test_arrows_read_a_chart(browser: Browser, path: Path, study: Study) -> None:
    browser.open(path)
    browser.run("document.querySelector('#hits [aria-roledescription=chart]').focus()")
    said = "return document.querySelector('#hits .readout').textContent"
    assert "press ←" in browser.run(said)
    browser.press("ArrowRight")
    browser.press("ArrowRight")
    text = browser.run(said)
    assert text.startswith("40 blocks (320 KiB)")
    rate = next(
        c.token_hit_rate for c in study.cells if (c.policy, c.capacity_blocks) == ("lru", 40)
    )
    assert f"lru {100 * rate:.1f} % [" in text
    browser.press("End")
    assert browser.run(said).startswith("160 blocks")
    browser.press("Escape")
    assert "press ←" in browser.run(said)


def answer(browser: Browser, gib: float) -> str:
    browser.run(
        "const box = document.getElementById('gib'); box.value = arguments[0];"
        "box.dispatchEvent(new Event('input'))",
        gib,
    )
    text: str = browser.run("return document.querySelector('.said').textContent")
    return text


def test_the_answer_is_that_of_the_numbers(browser: Browser, path: Path, study: Study) -> None:
    browser.open(path)
    rates = {
        name: {
            cell.capacity_blocks: cell.token_hit_rate for cell in study.cells if cell.policy == name
        }
        for name in POLICIES
    }
    for size in SIZES:
        gib = size * 16 * TOKEN / 2**30
        text = answer(browser, gib)
        online = [name for name in POLICIES if not name.startswith("opt")]
        best = max(online, key=lambda name: rates[name][size])
        lead = next(row for row in study.compare(best) if row.capacity_blocks == size)
        if best != "lru" and lead.real:
            assert f"{best} hits most: +" in text
            assert (
                f"[{100 * lead.low:.1f}, {100 * lead.high:.1f}]" in text or lead.difference < 0.01
            )
        else:
            assert "lru would do" in text
        tiles = browser.run("return document.querySelector('.tiles').textContent")
        assert f"the optimum{100 * rates['opt'][size]:.1f} %" in tiles
    between = answer(browser, 30 * 16 * TOKEN / 2**30)
    note = browser.run("return document.querySelector('#answer .note').textContent")
    assert between
    assert "between sizes that were measured" in note
    assert "was not measured: these results go from 160 KiB to 1.25 MiB" in answer(browser, 20)


def test_a_host_tier_is_judged(browser: Browser, path: Path) -> None:
    browser.open(path)
    said = "return document.querySelector('.host [role=status]').textContent"
    put = (
        "const [host, link, prefill] = document.querySelectorAll('.host input');"
        "[host.value, link.value, prefill.value] = arguments;"
        "prefill.dispatchEvent(new Event('input'))"
    )
    answer(browser, 20 * 16 * TOKEN / 2**30)
    browser.run(put, 60 * 16 * TOKEN / 2**30, 50, 20000)
    assert browser.run(said).startswith("It would pay. Beside ")
    browser.run(put, 60 * 16 * TOKEN / 2**30, 0.001, 20000000)
    assert browser.run(said).startswith("It would not pay. ")


def test_two_policies_are_picked_and_compared(browser: Browser, path: Path, study: Study) -> None:
    browser.open(path)
    pick = (
        "const [one, other] = document.querySelectorAll('#compare select');"
        "const at = (box, name) => [...box.options].findIndex((option) => option.text === name);"
        "one.value = at(one, arguments[0]); one.dispatchEvent(new Event('change'));"
        "const next = document.querySelectorAll('#compare select')[1];"
        "next.value = at(next, arguments[1]); next.dispatchEvent(new Event('change'));"
        "return document.querySelector('#compare [role=status]').textContent"
    )
    text = browser.run(pick, "s3-fifo", "mq")
    rows = study.compare("s3-fifo", "mq")
    mean = rows[-1]
    digits = 1 if abs(mean.difference) >= 0.01 else 2
    told = f"[{100 * mean.low:.{digits}f}, {100 * mean.high:.{digits}f}]".replace(
        "-", "\N{MINUS SIGN}"
    )
    assert text.startswith("s3-fifo less mq: ")
    assert told in text
    better = sum(row.low > 0 for row in rows[:-1])
    worse = sum(row.high < 0 for row in rows[:-1])
    assert ("not told apart at any size" in text) == (better + worse == 0)
    if worse:
        assert f"worse at {worse} of {len(SIZES)} sizes" in text
    browser.run("document.querySelector('#compare button').click()")
    swapped = browser.run("return document.querySelector('#compare [role=status]').textContent")
    assert swapped.startswith("mq less s3-fifo: ")


def test_a_name_is_pressed_into_colour(browser: Browser, path: Path) -> None:
    browser.open(path)
    named = "return [...document.querySelectorAll('#hits .name')].map((one) => one.textContent)"
    assert "opt-forced" not in browser.run(named)
    browser.run(
        "[...document.querySelectorAll('.chips button')]"
        ".find((one) => one.textContent === 'opt-forced').focus()"
    )
    browser.press(" ")
    browser.settle()
    assert "opt-forced" in browser.run(named)
    assert browser.run("return document.activeElement.ariaPressed") == "true"
    console, _ = browser.logged()
    assert console == []


def test_numbers_stand_below_each_chart(browser: Browser, path: Path) -> None:
    browser.open(path)
    browser.run("document.querySelectorAll('summary').forEach((one) => one.click())")
    browser.settle()
    sections = "document.querySelectorAll('section:not(#answer):not(#policies)')"
    counts = browser.run(
        f"return [...{sections}].map((one) => one.querySelectorAll('tbody td').length)"
    )
    assert len(counts) == 9
    assert min(counts) >= 9  # three policies at three loads


def test_a_narrow_window_has_no_sideways_scrolling(browser: Browser, path: Path) -> None:
    browser.open(path, width=390)
    wide = browser.run("return document.documentElement.scrollWidth")
    assert wide == 390


def test_curves_alone(browser: Browser, bench: Command, tmp_path: Path) -> None:
    trace = made.write(tmp_path / "t.jsonl", sessions=30)
    told = bench("curve", "--trace", trace, "--policy", "mq", "--replays", "5", "--json").stdout
    (tmp_path / "curve.json").write_text(told)
    assert bench("report", "curve.json", "--svg", "drawn").returncode == 0
    assert len(list((tmp_path / "drawn").iterdir())) == 2
    browser.open(tmp_path / "report.html")
    console, _ = browser.logged()
    assert console == []
    names = browser.run(
        "return [...document.querySelectorAll('#curves .name')].map((n) => n.textContent)"
    )
    assert sorted(names) == ["lru", "mq"]
    note = browser.run("return document.querySelector('#curves figcaption').textContent")
    assert f"at {json.loads(told)['knee_blocks']} blocks; mq's is from 5 replays" in note


def test_results_of_servers_alone(browser: Browser, tmp_path: Path) -> None:
    trace = str(made.write(tmp_path / "t.jsonl", sessions=10))
    study = Study.serve(traces=trace, policies="lru,mq", capacities="40", loads=[1, 2])
    study.report(tmp_path / "r.html")
    browser.open(tmp_path / "r.html")
    console, _ = browser.logged()
    assert console == []
    names = browser.run("return [...document.querySelectorAll('h2')].map((h) => h.textContent)")
    assert names == ["Policies in colour", "What users feel, by load", "From request to request"]


def test_a_reader_sees_whether_a_host_tier_pays(browser: Browser, tmp_path: Path) -> None:
    trace = str(made.write(tmp_path / "t.jsonl", sessions=40))
    steps = tmp_path / "steps.csv"  # a millisecond, and another for each token
    steps.write_text(
        "num_tokens,n_decode,kv_decode,prefill_chunk,step_us\n0,0,0,0,1000\n100,0,0,100,101000\n"
    )
    study = Study.serve(
        traces=trace,
        policies="lru",
        capacities="40",
        loads=[1, 4],
        profile=str(steps),
        tiers=["host=400,read=1TB/s"],
    )
    study.report(tmp_path / "r.html")
    told = numbers((tmp_path / "r.html").read_text())
    without, below = (
        [cell for cell in study.gathered.servers if bool(cell.tiers) == tiered]
        for tiered in (False, True)
    )
    bars, mean, late = (one for one in told["charts"] if one["family"] == "tiers")
    # Bars: each load without and with the tier, in parts that add up to all prompt tokens.
    assert bars["x"] == [
        f"load {load}, {name}" for load in (1, 4) for name in ("lru", "lru over host")
    ]
    assert [part["name"] for part in bars["series"]] == ["pool", "host", "computed"]
    parts = list(zip(*(part["y"] for part in bars["series"]), strict=True))
    assert all(sum(row) == pytest.approx(1, abs=1e-5) for row in parts)
    for at, cell in enumerate(below):
        share = cell.tier_hit_tokens["host"] / sum(cell.tier_hit_tokens.values())
        assert parts[2 * at + 1][1] == pytest.approx(share * cell.token_hit_rate, abs=1e-5)
        assert parts[2 * at + 1][1] > 0.1
    # Lines: the time to the first token falls.
    for chart, field in ((mean, "ttft_mean"), (late, "ttft_p99")):
        assert chart["x"] == [1, 4]
        lines = {line["name"]: line["y"] for line in chart["series"]}
        assert lines["lru"] == [round(getattr(cell, field), 6) for cell in without]
        assert lines["lru over host"] == [round(getattr(cell, field), 6) for cell in below]
        assert all(a > b for a, b in zip(lines["lru"], lines["lru over host"], strict=True))
        assert len(chart["said"]) == 2
        assert all("host below the pool pays under lru" in text for text in chart["said"])
    assert told["host"] == list(bars["said"])
    browser.open(tmp_path / "r.html")
    console, _ = browser.logged()
    assert console == []
    names = browser.run("return [...document.querySelectorAll('h2')].map((h) => h.textContent)")
    assert "What tiers below the pool bring" in names


# --- the pictures of the docs ---------------------------------------------------------------------


def small(png: bytes) -> bytes:
    """The same in 200 colours, which lines and text are well within."""
    from PIL import Image

    file = io.BytesIO()
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture.quantize(200, dither=Image.Dither.NONE).save(file, "png", optimize=True)
    return file.getvalue()


@pytest.mark.slow
def test_screenshots_of_the_docs(browser: Browser, tmp_path: Path) -> None:
    """Set KVFRAME_SCREENSHOTS=docs/how-to/images to write those that the docs show."""
    folder = Path(SHOTS or tmp_path)
    folder.mkdir(exist_ok=True)
    sizes = [f"{gib} GiB" for gib in (10, 20, 40, 80, 160, 320, 640)]
    study = Study.run(
        traces="conversation",
        policies=["lru", "mq", "foresight", "s3-fifo", "lfu", "arc", "lfuda", "opt", "opt-forced"],
        capacities=sizes,
        model_shape="layers=32,kv_heads=8,head_dim=128",
        content=True,
    )
    study.report(tmp_path / "report.html")
    shown: dict[str, Callable[[], bytes]] = {
        "answer.png": lambda: browser.picture("#answer"),
        "hits.png": lambda: browser.picture("#hits", 12),
        "content.png": lambda: browser.picture("#content", 12),
    }
    total = 0
    for name, take in shown.items():
        browser.open(tmp_path / "report.html", dark=name == "content.png", width=900)
        if name == "answer.png":
            assert answer(browser, 20).startswith("At 20 GiB, ")
        data = small(take())
        (folder / name).write_bytes(data)
        total += len(data)
    assert total < 300_000


@pytest.mark.parametrize(("trace", "each"), [("conversation", "request"), ("agent", "session")])
def test_percentiles_are_said_to_be_of_what_they_are(bench: Command, trace: str, each: str) -> None:
    done = bench("run", "--trace", trace, "--policy", "lru", "--capacity", "500")
    assert f"  {each} p50" in done.stdout
