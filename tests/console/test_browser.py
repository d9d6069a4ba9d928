"""The page in a real browser: it loads, it is live, and nothing that it shows is run."""

import os
import shutil
import time
from dataclasses import replace

import pytest

import viewmill as vm
from viewmill.console.console import Console
from viewmill.console.subjects import OwnPipeline

from .test_looking_closer import FakePipeline

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
HOSTILE = "<script>alert(1)</script>"
IMAGE = "<img src=x onerror=\"document.title='owned'\">"

pytestmark = [
    pytest.mark.skipif(
        not (CHROMIUM and DRIVER),
        reason="needs Chromium and ChromeDriver (Debian: chromium chromium-driver)",
    ),
    pytest.mark.xdist_group("browser"),
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    options.add_argument("--headless=new")
    options.add_argument("--disable-dev-shm-usage")
    options.add_argument("--disable-gpu")
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    driver.set_window_size(1280, 900)
    yield driver
    driver.quit()


@pytest.fixture(autouse=True)
def _fresh_page(browser):
    """Leave the page of the test before, whose console is gone, and forget its complaints."""
    browser.get("about:blank")
    browser.get_log("browser")


def text_of(browser, css="body"):
    return browser.execute_script("return document.querySelector(arguments[0])?.innerText", css)


def wait_for_text(browser, text, css="body", seconds=15.0):
    end = time.monotonic() + seconds
    while text not in (text_of(browser, css) or ""):
        assert time.monotonic() < end, f"{text!r} is not in {text_of(browser, css)!r}"
        time.sleep(0.1)


def complaints(browser):
    """What the console of the browser has logged: errors of scripts, breaches of the policy."""
    return [each["message"] for each in browser.get_log("browser") if each["level"] == "SEVERE"]


def test_the_page_loads_and_shows_a_change_as_it_is_committed(shop, console, browser):
    browser.get(console.url)
    wait_for_text(browser, "1 tables, 2 views")
    wait_for_text(browser, "live", "#live")
    assert "token" not in browser.current_url
    assert browser.execute_script("return document.cookie") == ""
    assert browser.execute_script("return document.querySelectorAll('svg .edge').length") == 2
    shop.insert("orders", [(3, "ann", 5)])
    wait_for_text(browser, f"version {shop.version}", "#version")
    wait_for_text(browser, "3 rows", ".graph")
    assert complaints(browser) == []


def test_the_page_of_a_view_shows_plan_states_rows_and_new_refreshes(shop, console, browser):
    browser.get(console.url + "#/of/revenue")
    wait_for_text(browser, "CREATE MATERIALIZED VIEW revenue")
    wait_for_text(browser, "bob")
    wait_for_text(browser, "States")
    drawn = "return document.querySelector('img')?.naturalWidth > 100"
    wait_until(lambda: browser.execute_script(drawn))
    shop.insert("orders", [(4, "cyd", 1234)])
    wait_for_text(browser, "1234")
    wait_until(
        lambda: browser.execute_script(
            "return document.querySelectorAll('.bar.incremental').length"
        )
    )
    assert complaints(browser) == []


def test_the_editor_underlines_the_place_of_an_error(console, browser):
    browser.get(console.url + "#/sql")
    wait_for_text(browser, "Ctrl+Enter")
    write = "const t = document.querySelector('textarea'); t.value = arguments[0];"
    run = "document.querySelector('main button').click()"
    browser.execute_script(write + run, "SELECT 'é😀', nope FROM revenue")
    wait_for_text(browser, "there is no column")
    assert text_of(browser, "mark") == "nope"
    marked = "const t = document.querySelector('textarea');"
    marked += "return t.value.slice(t.selectionStart, t.selectionEnd)"
    assert browser.execute_script(marked) == "nope"
    browser.execute_script(write + run, "SELECT customer FROM revenue WHERE revenue = 7")
    wait_for_text(browser, "bob", "table")


def test_nothing_in_names_and_rows_is_run(shop, console, browser):
    shop.sql(f"CREATE TABLE `{HOSTILE}` (`{IMAGE}` STRING)")
    shop.sql(f"CREATE MATERIALIZED VIEW `{IMAGE}` AS SELECT * FROM `{HOSTILE}`")
    shop.insert(HOSTILE, [(IMAGE,), (HOSTILE,), ("javascript:alert(1)",)])
    browser.get(console.url)
    wait_for_text(browser, HOSTILE)
    for name in (HOSTILE, IMAGE):
        quoted = "return encodeURIComponent(arguments[0])"
        browser.get(console.url + "#/of/" + browser.execute_script(quoted, name))
        wait_for_text(browser, HOSTILE, "section table")
        wait_for_text(browser, name, "h1")
    run = "const t = document.querySelector('textarea'); t.value = arguments[0];"
    run += "document.querySelector('main button').click()"
    browser.get(console.url + "#/sql")
    wait_for_text(browser, "Ctrl+Enter")
    browser.execute_script(run, f"SELECT * FROM `{HOSTILE}`")
    wait_for_text(browser, IMAGE, "table")
    browser.execute_script(run, f"SELECT `{IMAGE}x` FROM `{HOSTILE}`")
    wait_for_text(browser, "there is no column")
    scripts = "return [...document.querySelectorAll('script')].map(s => s.getAttribute('src'))"
    assert browser.execute_script(scripts) == ["/static/main.js"]
    assert browser.title == "Viewmill console"
    assert browser.execute_script("return document.querySelectorAll('img[onerror]').length") == 0
    allowed = ("400 (Bad Request)", "404 (Not Found)")  # of the wrong SQL above
    assert [each for each in complaints(browser) if not any(a in each for a in allowed)] == []


def test_the_editor_completes_a_word_by_keyboard(shop, console, browser):
    shop.sql(f"CREATE TABLE `cu{IMAGE}` (x BIGINT)")
    browser.get("about:blank")
    browser.get(console.url + "#/sql")
    wait_for_text(browser, "Ctrl+Space")
    text = browser.find_element("css selector", "textarea")
    text.clear()
    text.send_keys("SELECT cu")
    wait_for_text(browser, f"cu{IMAGE} table", "#completions")
    wait_for_text(browser, "customer column", "#completions")
    text.send_keys("st")
    wait_until(lambda: "table" not in text_of(browser, "#completions"))
    text.send_keys("\ue004 FROM reve")  # Tab
    wait_for_text(browser, "revenue view", "#completions")
    text.send_keys("\ue004 LIMIT nothing")
    assert text.get_attribute("value") == "SELECT customer FROM revenue LIMIT nothing"
    text.send_keys("\ue00c\ue004")  # Escape, and Tab leaves the text
    focused = "return document.activeElement.tagName"
    assert browser.execute_script(focused) == "BUTTON"
    assert browser.title == "Viewmill console"
    assert complaints(browser) == []


def test_a_source_is_drawn_beside_its_table_and_its_name_is_not_run(
    shop, console, browser, tmp_path
):
    folder = tmp_path / IMAGE
    folder.mkdir()
    (folder / "1.csv").write_text("customer,amount\nann,1\n")
    shop.sql("CREATE TABLE sales (customer STRING, amount BIGINT) UNCHECKED")
    browser.get(console.url)
    wait_for_text(browser, "2 tables, 2 views")
    edges = "return document.querySelectorAll('svg .edge').length"
    before = browser.execute_script(edges)
    shop.follow("sales", vm.sources.files(folder / "*.csv"), every=0.05)
    wait_for_text(browser, "following, 1 rows taken", ".graph")
    assert browser.execute_script(edges) == before + 1
    (folder / "2.csv").write_text("customer,amount\nann,many\n")
    wait_for_text(browser, "retrying", ".graph")
    name = "return document.querySelector('.node.source.failing title').textContent"
    assert IMAGE in browser.execute_script(name)
    browser.execute_script("location.hash = '#/of/sales'")
    wait_for_text(browser, "2.csv", ".fact-error")
    wait_for_text(browser, IMAGE, ".fact-source")
    assert browser.title == "Viewmill console"
    assert complaints(browser) == []


def test_what_a_budget_keeps_is_said_in_words(shop, console, browser):
    shop.sql(
        "CREATE MATERIALIZED VIEW pairs MEMORY '1 MB' AS SELECT a.customer, SUM(b.amount) AS s "
        "FROM orders a JOIN orders b ON a.customer = b.customer GROUP BY a.customer"
    )
    shop.insert("orders", [(5, "dan", 5)])
    status = shop["pairs"].status()
    assert status["kept"]
    browser.get(console.url + "#/of/pairs")
    wait_for_text(browser, "1.0 MB", ".fact-budget_bytes")
    for name, why in status["kept"].items():
        wait_for_text(browser, f"{name}: {why}", ".fact-kept")
    assert "[object" not in text_of(browser)


def test_inline_script_is_refused_by_the_policy(console, browser):
    """What would stop an attack if a name did become markup."""
    browser.get(console.url)
    wait_for_text(browser, "tables")
    browser.execute_script("document.body.insertAdjacentHTML('beforeend', arguments[0])", IMAGE)
    wait_until(lambda: any("Content Security Policy" in each for each in complaints(browser)))
    assert browser.title == "Viewmill console"


def test_a_wrongly_quoted_name_in_the_address_is_said_and_the_page_goes_on(console, browser):
    browser.get(console.url + "#/sql")
    wait_for_text(browser, "Ctrl+Enter")
    browser.execute_script("location.hash = '#/of/%E0%A4%A'")
    wait_for_text(browser, "no table or materialized view")
    browser.execute_script("location.hash = '#/'")
    wait_for_text(browser, "1 tables, 2 views")


def test_a_page_that_nobody_sees_pauses_and_then_catches_up(shop, console, browser):
    hide = "Object.defineProperty(document, 'hidden', {value: arguments[0], configurable: true});"
    hide += "document.dispatchEvent(new Event('visibilitychange'))"
    browser.get(console.url)
    wait_for_text(browser, "live", "#live")
    browser.execute_script(hide, True)
    wait_for_text(browser, "paused", "#live")
    before = text_of(browser, "#version")
    shop.insert("orders", [(9, "eve", 1)])
    time.sleep(1.2)  # two looks
    assert text_of(browser, "#version") == before
    browser.execute_script(hide, False)
    wait_for_text(browser, "live", "#live")
    wait_for_text(browser, f"version {shop.version}", "#version")


def test_a_narrow_screen_does_not_scroll_sideways(shop, console, browser):
    browser.set_window_size(500, 800)
    try:
        for page in ("", "#/of/revenue", "#/sql"):
            browser.get("about:blank")
            browser.get(console.url + page)
            wait_for_text(browser, "live", "#live")
            wait_for_text(browser, "revenue" if page != "#/sql" else "Ctrl+Enter")
            wide = "return document.documentElement.scrollWidth - window.innerWidth"
            assert browser.execute_script(wide) <= 0, page
    finally:
        browser.set_window_size(1280, 900)


def wait_until(what, seconds=15.0):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.1)


def test_closing_the_mill_is_said_on_the_page(uncompiled, browser):
    with vm.connect() as mill:
        mill.sql("CREATE TABLE t (x BIGINT)")
        console = mill.console()
        browser.get(console.url)
        wait_for_text(browser, "live", "#live")
    wait_until(lambda: text_of(browser, "#live") in ("connecting", "stopped"))
    console.wait(10)


BLOCKS = (
    "SELECT o.customer, MAX(s) AS s FROM (SELECT a.customer, a.id, SUM(b.amount) AS s "
    "FROM orders a JOIN orders b ON a.customer = b.customer GROUP BY a.customer, a.id) o "
    "GROUP BY o.customer"
)


def count(browser, css):
    return browser.execute_script("return document.querySelectorAll(arguments[0]).length", css)


def click(browser, css, text=""):
    """Click the first element that has a text."""
    found = "const [css, text] = arguments; const found = [...document.querySelectorAll(css)]"
    found += ".find((each) => each.textContent.includes(text)); found?.click(); return !!found"
    wait_until(lambda: browser.execute_script(found, css, text))


def test_blocks_and_sinks_are_drawn_and_the_charts_move(shop, console, browser, tmp_path):
    shop.sql(f"CREATE MATERIALIZED VIEW `{IMAGE}` AS {BLOCKS}")
    (tmp_path / HOSTILE.replace("/", "_")).mkdir()
    shop.sink(IMAGE, format="parquet", path=tmp_path / HOSTILE.replace("/", "_") / "out")
    browser.get(console.url)
    wait_until(lambda: count(browser, ".node.block") == 1)
    assert count(browser, ".node.sink.writing") == 1
    wait_for_text(browser, "Rows changed per second", ".tempo")
    wait_until(lambda: shop.core.watched)
    shop.insert("orders", [(i, "cyd", 1) for i in range(10, 40)])
    wait_until(lambda: count(browser, ".tempo .bar.rate") and count(browser, ".tempo .bar.latency"))
    wait_for_text(browser, "half of 1 under", ".tempo")
    assert browser.title == "Viewmill console"
    assert complaints(browser) == []


def test_a_view_shows_changed_rows_why_and_the_cost_of_memory(shop, console, browser):
    shop.insert("orders", [(3, HOSTILE, 1), (4, HOSTILE, 2)])
    browser.get(console.url + "#/of/revenue")
    wait_for_text(browser, "bob")
    click(browser, "button", "Follow the changed rows")
    wait_for_text(browser, "Nothing has changed since")
    shop.insert("orders", [(5, IMAGE, 77)])
    wait_until(lambda: count(browser, "td .came") == 1)
    wait_for_text(browser, IMAGE)
    click(browser, "tr.explainable td", HOSTILE)
    wait_for_text(browser, f"Why ({HOSTILE}, 3)?", ".why")
    assert count(browser, ".why tbody tr") == 2
    click(browser, "button", "Estimate it")
    wait_until(lambda: count(browser, ".curve circle") > 5)
    assert browser.title == "Viewmill console"
    assert count(browser, "img[onerror]") == 0
    assert complaints(browser) == []


def test_a_proposal_is_compared_and_approved(shop, browser):
    with shop.console(write=True) as console:
        browser.get(console.url + "#/of/revenue")
        click(browser, "summary", "Propose another definition")
        write = "const t = document.querySelector('.proposal textarea');"
        write += "t.value = t.value.replace('FROM orders', 'FROM orders WHERE amount > 7')"
        browser.execute_script(write)
        click(browser, "button", "Compare rows")
        wait_for_text(browser, "0 rows come", ".proposal")
        wait_for_text(browser, "1 rows go", ".proposal")
        click(browser, "button:not([hidden])", "Approve")
        wait_for_text(browser, "Approved", ".proposal")
    assert shop["revenue"].rows() == [("ann", 10)]


def test_a_pipeline_shows_its_batches_sinks_and_refused_rows(shop, browser):
    shop.sql(
        "CREATE TABLE _viewmill_dead_letters (source STRING NOT NULL, batch BIGINT NOT NULL,"
        " reason STRING NOT NULL, row STRING NOT NULL) APPEND ONLY"
    )
    shop.insert("_viewmill_dead_letters", [("orders", 3, "no number", IMAGE)])
    with Console(OwnPipeline(FakePipeline(shop))) as console:
        browser.get(console.url)
        wait_for_text(browser, "Rows per batch")
        wait_for_text(browser, f"{HOSTILE}: 9", ".fact-rows_in")
        wait_until(lambda: count(browser, ".node.sink") == 1)
        browser.execute_script("location.hash = '#/refused'")
        wait_for_text(browser, IMAGE)
        assert browser.title == "Viewmill console"
        assert complaints(browser) == []


def test_ten_thousand_views_are_filtered_turned_and_live(shop, browser):
    """The same view under other names: making so many would take minutes."""
    catalog = shop.core.catalog
    entry = catalog.view("largest")
    for i in range(10_000):
        catalog.add(replace(entry, name=f"v{i:05}", placed={}, listeners=[], waiting={}))
    with shop.console() as console:
        start = time.monotonic()
        browser.get(console.url)
        wait_for_text(browser, "10,002 views")
        assert count(browser, ".node") <= 60
        click(browser, "button", "Next")
        wait_for_text(browser, "page 2 of")
        write = "const i = document.querySelector('input'); i.value = arguments[0];"
        browser.execute_script(write + "i.dispatchEvent(new Event('input'))", "v0999")
        wait_for_text(browser, "10 match")
        shop.insert("orders", [(7, "ann", 7)])
        wait_for_text(browser, f"version {shop.version}", "#version")
        browser.execute_script("location.hash = '#/of/v09999'")
        wait_for_text(browser, "v09999", "h1")
        wait_for_text(browser, "States")
        assert time.monotonic() - start < 60
        assert complaints(browser) == []
