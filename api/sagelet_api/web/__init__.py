"""The pages for a browser: at `/`, and at everything under PREFIX."""

#: The path of the pages. `/` shows the list of jobs, too.
PREFIX = "/_sagelet/ui"
LOGIN = f"{PREFIX}/login"
