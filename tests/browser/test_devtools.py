"""What drives the browser waits as a person does."""

from support.devtools import Page

MOVING = """data:text/html,<div id=charts aria-busy=true></div><button>go</button><script>
setTimeout(() => { charts.style.height = '300px'; charts.setAttribute('aria-busy', 'false') }, 300);
let top_ = 0; const move = setInterval(() => { charts.style.marginTop = `${(top_ += 97) % 700}px` }, 1);
setTimeout(() => clearInterval(move), 900);
document.querySelector('button').addEventListener('click', () => { window.clicked = true })
</script>"""


def test_a_click_waits_until_the_page_is_drawn_and_stands_still(page: Page) -> None:
    page.goto(MOVING)
    page.click("button")
    page.until("window.clicked")
