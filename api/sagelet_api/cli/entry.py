"""Where the command `sagelet` begins. Programs and tests that call its commands themselves import `cli.main`."""

from sagelet_engine.base.interpreter import set_for_command


def main() -> None:
    set_for_command()
    # It imports click and more.
    from sagelet_api.cli.main import main as command

    command()
