"""The pages in a real headless Chromium, opened from the disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.pages import (
    HOSTILE_IDS,
    make_pages,
    open_browser,
    write_hostile_run,
)
from tests.support.rundata import write_generated_run

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser() -> Iterator[WebDriver]:
    with open_browser() as driver:
        yield driver


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run of 300 instances and six attempts each."""
    return make_pages(write_generated_run(tmp_path_factory.mktemp("big")))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pages(write_hostile_run(tmp_path_factory.mktemp("hostile")))


@pytest.fixture
def opened_page(browser: WebDriver, big: Path) -> Iterator[WebDriver]:
    """The big page, opened; at the end the browser's console must be empty."""
    browser.switch_to.default_content()
    browser.get("about:blank")
    browser.get_log("browser")
    browser.get(big.as_uri())
    yield browser
    assert browser.get_log("browser") == []


def run_js(
    browser: WebDriver,
    script: str,
    *arguments: Any,
) -> Any:
    return browser.execute_script(script, *arguments)


def cells(browser: WebDriver, column: int) -> list[str]:
    """Return the texts of the visible rows in a column, from the top."""
    texts: list[str] = run_js(
        browser,
        "return Array.from(document.querySelectorAll('#instances tbody tr'))"
        ".filter(row => row.offsetParent !== null)"
        ".map(row => row.cells[arguments[0]].textContent)",
        column,
    )
    return texts


def find(browser: WebDriver, selector: str) -> Any:
    return browser.find_element("css selector", selector)


def wait(browser: WebDriver, script: str) -> Any:
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, 30).until(lambda driver: run_js(driver, script))


def set_theme(browser: WebDriver, theme: str) -> None:
    """Show the page in ``light`` or ``dark`` and wait for the pictures of the theme."""
    feature = {"name": "prefers-color-scheme", "value": theme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    own = "i.src"
    if theme == "dark":
        own = "i.previousElementSibling.srcset"
    drawn = f"i.complete && i.naturalWidth > 0 && i.currentSrc === {own}"
    wait(browser, f"return [...document.images].every(i => {drawn})")


def enter_frame(browser: WebDriver) -> None:
    """Switch to the page of the opened instance."""
    from selenium.webdriver.support.ui import WebDriverWait

    wait(browser, "return document.querySelector('#page iframe') !== null")
    browser.switch_to.frame(find(browser, "#page iframe"))
    WebDriverWait(browser, 30).until(
        lambda driver: driver.find_elements("css selector", "h1")
    )


def costs(browser: WebDriver) -> list[float]:
    return [float(text.lstrip("$")) for text in cells(browser, 5)]


def test_sorting(opened_page: WebDriver) -> None:
    button = find(opened_page, "#instances th:nth-child(6) button")
    button.click()
    rising = costs(opened_page)
    assert len(rising) == 300
    assert rising == sorted(rising)
    script = "return arguments[0].parentElement.ariaSort"
    assert run_js(opened_page, script, button) == "ascending"
    button.click()
    assert costs(opened_page) == sorted(rising, reverse=True)
    sorts = run_js(
        opened_page,
        "return [...document.querySelectorAll('#instances th')].map(h => h.ariaSort)",
    )
    assert sorts == ["none"] * 5 + ["descending", "none"]


def test_filters(opened_page: WebDriver) -> None:
    find(opened_page, "input[name=words]").send_keys("DJANGO opus")
    names = cells(opened_page, 0)
    assert names
    assert all(name.startswith("django__django-") for name in names)
    assert set(cells(opened_page, 4)) == {"claude-3-opus"}
    assert find(opened_page, "#shown").text == f"{len(names)} of 300 instances"
    find(opened_page, "select[name=verdict] option[value=resolved]").click()
    assert set(cells(opened_page, 6)) == {"✓ resolved"}
    assert len(cells(opened_page, 6)) < len(names)
    find(opened_page, "#filters button").click()
    # The form is reset after its event: the rows come back a moment later.
    wait(
        opened_page,
        "return document.getElementById('shown').textContent.startsWith('300 of')",
    )
    assert len(cells(opened_page, 0)) == 300


def test_an_instance_opens_and_closes(opened_page: WebDriver) -> None:
    link = find(opened_page, "#instances tbody a")
    name = link.text
    link.click()
    assert run_js(opened_page, "return decodeURIComponent(location.hash)") == f"#{name}"
    enter_frame(opened_page)
    assert find(opened_page, "h1").text == name
    text = opened_page.page_source
    for part in (
        "Issue",
        "Attempt 6",
        "Conversation",
        "Test output",
        "why this prediction",
    ):
        assert part in text
    assert len(opened_page.find_elements("css selector", ".gi")) > 5
    message = find(opened_page, "details[open] .message")
    assert message.get_attribute("open") is None
    find(opened_page, "details[open] .message summary").click()
    assert "expert software engineer" in message.text
    opened_page.switch_to.default_content()
    find(opened_page, "#close").click()
    wait(opened_page, "return !document.getElementById('panel').open")
    assert run_js(opened_page, "return location.hash") == ""
    assert run_js(opened_page, "return document.activeElement.textContent") == name


def test_next_and_back(opened_page: WebDriver) -> None:
    names = cells(opened_page, 0)
    find(opened_page, "#instances tbody a").click()
    wait(opened_page, "return document.getElementById('panel').open")
    find(opened_page, "#next").click()
    wait(
        opened_page,
        f"return document.getElementById('panel-title').textContent === '{names[1]}'",
    )
    opened_page.back()
    wait(
        opened_page,
        f"return document.getElementById('panel-title').textContent === '{names[0]}'",
    )


def test_a_deep_link(opened_page: WebDriver, big: Path) -> None:
    name = cells(opened_page, 0)[-1]
    opened_page.get("about:blank")
    opened_page.get(f"{big.as_uri()}#{name}")
    enter_frame(opened_page)
    assert find(opened_page, "h1").text == name


def test_links_that_name_nothing(opened_page: WebDriver, big: Path) -> None:
    for wrong in ("no-such-instance", "%E0%A4%A", "../../x"):
        opened_page.get("about:blank")
        opened_page.get(f"{big.as_uri()}#{wrong}")
        assert not run_js(opened_page, "return document.getElementById('panel').open")
        assert len(cells(opened_page, 0)) == 300


def test_the_keyboard_alone(opened_page: WebDriver) -> None:
    from selenium.webdriver import ActionChains, Keys

    def press(*keys: str) -> None:
        ActionChains(opened_page).send_keys(*keys).perform()

    def text_in_focus() -> str:
        return str(run_js(opened_page, "return document.activeElement.textContent"))

    find(opened_page, "#filters button").send_keys("")
    reached = []
    for _ in range(8):
        press(Keys.TAB)
        reached.append(text_in_focus())
    heads = [
        "Instance",
        "Status",
        "Attempts",
        "Chosen",
        "Model",
        "Cost",
        "Verdict",
    ]
    assert [name for name in reached if name in heads] == heads
    first = cells(opened_page, 0)[0]
    assert reached[7] == first
    press(Keys.ENTER)
    wait(opened_page, "return document.getElementById('panel').open")
    assert text_in_focus() == "Close"
    press(Keys.ESCAPE)
    wait(opened_page, "return !document.getElementById('panel').open")
    assert text_in_focus() == first


def test_pictures_are_drawn_in_both_themes(opened_page: WebDriver) -> None:
    seen = []
    for theme in ("light", "dark"):
        set_theme(opened_page, theme)
        assert run_js(opened_page, "return document.images.length") == 4
        seen.append(
            run_js(
                opened_page,
                "return [getComputedStyle(document.body).backgroundColor,"
                " document.images[0].currentSrc]",
            )
        )
    opened_page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert seen[0][0] != seen[1][0]
    assert seen[0][1] != seen[1][1]


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_nothing_is_wider_than_the_screen(opened_page: WebDriver, width: int) -> None:
    metrics = {
        "width": width,
        "height": 800,
        "deviceScaleFactor": 1,
        "mobile": width < 500,
    }
    opened_page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        wide = "return document.documentElement.scrollWidth"
        assert run_js(opened_page, wide) <= width
        find(opened_page, "#instances tbody a").click()
        enter_frame(opened_page)
        assert run_js(opened_page, wide) <= width
    finally:
        opened_page.switch_to.default_content()
        opened_page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def no_script_ran(browser: WebDriver, scripts: int) -> None:
    """Check that a page has only its own scripts, and no element that an attack made."""
    assert browser.title != "hacked"
    assert len(browser.find_elements("css selector", "script")) == scripts
    assert browser.find_elements("css selector", "svg, img:not([src^='data:'])") == []
    assert browser.find_elements("css selector", "[onload], [onerror], [onclick]") == []


def test_hostile_texts_run_no_script(browser: WebDriver, hostile: Path) -> None:
    browser.switch_to.default_content()
    browser.get_log("browser")
    browser.get(hostile.as_uri())
    no_script_ran(browser, scripts=1)
    assert "<script>" in find(browser, "body").text
    assert len(cells(browser, 0)) == len(HOSTILE_IDS) + 1
    for link in browser.find_elements("css selector", "#instances tbody a"):
        link.click()
        enter_frame(browser)
        assert "<script>" in find(browser, "body").text
        no_script_ran(browser, scripts=0)
        browser.switch_to.default_content()
        no_script_ran(browser, scripts=1)
        find(browser, "#close").click()
        wait(browser, "return !document.getElementById('panel').open")
    assert browser.get_log("browser") == []


def test_pages_of_instances_by_themselves(browser: WebDriver, hostile: Path) -> None:
    pages = sorted((hostile.parent / "instances").iterdir())
    assert len(pages) == len(HOSTILE_IDS)
    for page in pages:
        browser.get(page.as_uri())
        no_script_ran(browser, scripts=0)


def test_pictures_with_hostile_names(browser: WebDriver, hostile: Path) -> None:
    pictures = sorted((hostile.parent / "figures").glob("*.svg"))
    assert pictures
    for picture in pictures:
        browser.get(picture.as_uri())
        script = "return document.querySelectorAll('script, [onload]').length"
        assert run_js(browser, script) == 0
        assert run_js(browser, "return document.querySelector('parsererror') === null")


def test_policies_hold_where_escaping_would_fail(
    browser: WebDriver, hostile: Path, tmp_path: Path
) -> None:
    attack = (
        "<script>document.title='hacked'</script><img src=x "
        "onerror=\"document.title='hacked'\">"
    )
    page_of_instance = next((hostile.parent / "instances").iterdir())
    for page in (hostile, page_of_instance):
        text = page.read_text()
        broken = tmp_path / page.name
        broken.write_text(text.replace("</h1>", f"</h1>{attack}", 1))
        browser.get(broken.as_uri())
        messages = [entry["message"] for entry in browser.get_log("browser")]
        assert any("Content Security Policy" in message for message in messages)
        assert browser.title != "hacked"


def test_an_instance_leads_back_but_not_inside_the_panel(
    browser: WebDriver, opened_page: WebDriver, big: Path
) -> None:
    find(browser, "#instances tbody a").click()
    browser.switch_to.frame(find(browser, "iframe"))
    assert not find(browser, "#framed").is_displayed()
    browser.switch_to.default_content()
    browser.get(find(browser, "#alone").get_attribute("href"))
    find(browser, "#framed a").click()
    assert browser.current_url == big.as_uri()
