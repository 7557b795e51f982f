"""`sagelet completion`: completes commands in a shell, and names of training, tuning and processing jobs."""

import click
from click.shell_completion import get_completion_class

#: Where each shell finds it.
SETUP = {
    "bash": 'eval "$(sagelet completion bash)"    # in ~/.bashrc',
    "zsh": 'eval "$(sagelet completion zsh)"    # in ~/.zshrc, after compinit',
    "fish": "sagelet completion fish > ~/.config/fish/completions/sagelet.fish",
}


@click.command(
    epilog="\b\nTo have it in every shell:\n" + "\n".join(f"  {line}" for line in SETUP.values()),
)
@click.argument("shell", type=click.Choice(list(SETUP)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the shell code that completes sagelet's commands.

    It completes commands, options and their values, and the names of training, tuning and processing jobs, which come
    from the server.
    """
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(context.find_root().command, {}, "sagelet", "_SAGELET_COMPLETE").source())
