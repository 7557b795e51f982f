"""The page for a browser: at `/`, and at all that is under PREFIX."""

#: Where the page lives; `/` shows the list of jobs, too.
PREFIX = "/_sagelet/ui"
LOGIN = f"{PREFIX}/login"
