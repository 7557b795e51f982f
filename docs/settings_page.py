"""Makes docs/reference/settings.md: the settings of a server, and all environment variables. `make docs` runs it."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from sagelet_api.cli.up import up

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "settings.md"
_INTRODUCTION = """\
# Settings

Made by `make docs` from the options of `sagelet up` and from `docs/settings_page.py`; do not edit.

Each setting of a server is an option of `sagelet up` and an environment variable. The option takes precedence. There is
no configuration file of a server. A wrong setting ends the start with one line that names it.
"""
#: Variables of the other commands and of client programs.
CLIENTS: Mapping[str, str] = {
    "SAGELET_CONTEXT": "the context that names the server ([which server](../how-to/contexts.md))",
    "SAGELET_ENDPOINT": "the server that commands and `sagelet.connect` call; `sagelet run` sets it",
    "SAGELET_DATA": "the data directory, in which commands find the server, its key pair and its certificate; `sagelet "
    "run` sets it",
    "AWS_ENDPOINT_URL": "the server, where none of the three above is set",
    "SAGELET_CONTEXTS": "the file of contexts; otherwise `sagelet/contexts.json` in XDG_CONFIG_HOME or `~/.config`",
    "AWS_ACCESS_KEY_ID": "the account of commands, if it is 12 digits",
    "AWS_REGION, AWS_DEFAULT_REGION": "the region of commands",
    "PIP_INDEX_URL": "`sagelet image build`: where pip finds packages (`--index-url`)",
    "PIP_CERT, SSL_CERT_FILE, REQUESTS_CA_BUNDLE": "`sagelet image build`: certificates that the image trusts",
    "SAGELET_TORCH_BUILD": "`sagelet image build`, `sagelet install-torch`, `sagelet bundle`, `make setup`, "
    "`make image`: `auto`, `cpu` or `cuda` (`--torch-build`; "
    "[torch without CUDA](../how-to/install.md#torch-without-cuda))",
    "SAGELET_INSTALLER": "`sagelet install-torch`, `make setup` and the other `make setup-*`: `uv`, `pip`, or `auto`, "
    "the default: uv, and pip where uv cannot be had or lacks one of pip's settings "
    "([how packages are installed](../how-to/install.md#uv-and-pip))",
    "DOCKER_HOST": "the Docker Engine, as for `docker`",
    "NO_COLOR": "no colours on the terminal",
    "XDG_DATA_HOME": "the default data directory is `sagelet` in it, otherwise `~/.local/share/sagelet`",
}
#: Variables in CreateTrainingJob's Environment.
JOBS: Mapping[str, str] = {
    "SAGELET_REPORT_DIR": "the directory where workers write the compile report; an empty value turns it off",
    "SAGELET_DEBUGPY": "the port on which debugpy listens in the job's first host; each further host has the next port",
    "SAGELET_DEBUGPY_WAIT": "`true`: the script starts when a debugger has attached",
    "SAGELET_PINS": "`exact`: pip and uv install the versions that requirements.txt names, also of torch "
    "([packages](../how-to/packages.md))",
    "PIP_CONSTRAINT, UV_CONSTRAINT": "your files of constraints, separated by blanks; sagelet adds its own",
    "HF_ENDPOINT": "the Hugging Face Hub that the job uses instead of the server's own ([the hub](../how-to/hub.md))",
    "SAGELET_XLA_CUT": "`0`: steps of a compiled job on CPUs are not "
    "[cut at the optimizer](../explanation/compiled-training.md#the-cut-before-the-optimizers-step)",
    "SAGELET_XLA_LOWERINGS": "`0`: a compiled job on CPUs has torch_xla's own forms of "
    "[pooling, LSTM and GRU](../explanation/compiled-training.md#pooling-lstm-and-gru-on-cpus)",
    "SAGELET_QUIET_IMPORTS": "`0`: Python's garbage collector does not pause while torch and Transformers are imported",
    "SAGELET_WORLD_JOIN_TIMEOUT": "seconds that a worker waits for the others to reach their first collective",
    "SAGELET_COLLECTIVE_TIMEOUT": "seconds that a worker waits inside one collective",
    "SAGELET_PEER_LOST_SILENCE": "seconds that a worker stays silent if its peer is gone, so the cause comes first",
    "SAGELET_XLA_TRACING": "`auto`, the default: optimizer steps and clipping are "
    "[replayed](../explanation/compiled-training.md#replayed-steps), models are traced at each step; `tiered`: models "
    "are traced at each step until it pays to trace them [once](../how-to/gpu.md#tiers); `once`, also "
    "written `dynamo`: a model is [traced once](../how-to/gpu.md#trace-once), too; `lazy`: all is traced at each step",
    "SAGELET_XLA_TIERED_AFTER": "with `SAGELET_XLA_TRACING=tiered`: the number of equal calls, from 2 on, after which "
    "a model is traced once, whatever that costs",
    "SAGELET_COMPILER": "`inductor`: [Inductor](../how-to/inductor.md) compiles a job that asks for the compiler; "
    "`xla`: XLA or nothing; `auto`: what [finished the same training "
    "soonest](../how-to/inductor.md#the-compiler-that-wins); not set: XLA, and Inductor where the trial of a GPU's "
    "plugin fails",
    "SAGELET_XLA_CLIENT": "XLA's client of a compiled job on CPUs: `plugin`, the default, is "
    "[XLA's CPU plugin](../explanation/compiled-training.md#xlas-client-on-cpus), `builtin` torch_xla's own",
    "SAGELET_GPU_TRIAL": "`always`: the plugin is tried in this job; `kept`, the default: an earlier job's verdict "
    "counts ([the trial](../how-to/gpu.md#the-verdict-is-kept))",
    "SAGELET_GPU_PROBE_SECONDS": "seconds that the trial of a plugin before a compiled job may take (240)",
}
#: Variables for sagelet's own tests.
TESTS: Mapping[str, str] = {
    "SAGELET_FAILPOINTS": "places in a job's life where `sagelet up` kills itself; never set it on a server that you "
    "need ([reliability](../reliability.md#kills))",
}
#: Set by sagelet for its own processes. They are no interface.
INTERNAL = frozenset(
    {
        "SAGELET_CA_BUNDLE", "SAGELET_COMPILER_PARAMETERS", "SAGELET_COMPILE_CACHE", "SAGELET_COMPILE_KEY",
        "SAGELET_DEBUGPY_LISTEN", "SAGELET_DETACHED", "SAGELET_DRIVER_INSTALL", "SAGELET_HOST_COOKIE",
        "SAGELET_INDUCTOR", "SAGELET_INSTANCE_GPUS",
        "SAGELET_JOB_GPUS", "SAGELET_JOB_ID", "SAGELET_MASTER_PORT", "SAGELET_NOT_COMPILED", "SAGELET_OLD_TRANSFORMERS",
        "SAGELET_PJRT_FRONT", "SAGELET_PJRT_LABEL", "SAGELET_PJRT_NAME", "SAGELET_PJRT_OLDEST",
        "SAGELET_PJRT_PLUGIN", "SAGELET_PLAIN_PIP", "SAGELET_STANDS_IN_FOR", "SAGELET_TRAINING",
        "SAGELET_STAND_IN_TRANSFORMERS", "SAGELET_TICKET", "SAGELET_TRAINING_IMAGE",
        "SAGELET_WORKER_NOTES", "SAGELET_WORKER_PROCESS", "SAGELET_WORLD",
    }
)  # fmt: skip


def server_options() -> dict[str, click.Option]:
    """The options of `sagelet up` by environment variable."""
    options = [one for one in up.params if isinstance(one, click.Option)]
    return {one.envvar: one for one in options if isinstance(one.envvar, str)}


def page() -> str:
    parts = (_server(), _variables("Commands and client programs", CLIENTS), _jobs(), _variables("Tests", TESTS))
    return "\n".join([_INTRODUCTION, *(line for part in parts for line in part)])


def _server() -> Iterator[str]:
    context = click.Context(up, info_name="up")
    yield "## The server\n"
    yield "| option of `sagelet up` | variable | default | |\n| --- | --- | --- | --- |"
    for variable, option in server_options().items():
        default = "off" if option.is_flag else option.get_help_extra(context).get("default", "none").strip("()")
        values = "" if option.is_flag else f" {option.make_metavar(context)}".replace("|", "\\|")
        yield f"| `{option.opts[0]}`{values} | `{variable}` | {default} | {option.help} |"
    yield ""


def _variables(title: str, variables: Mapping[str, str]) -> Iterator[str]:
    yield f"## {title}\n"
    yield "| variable | |\n| --- | --- |"
    yield from (f"| `{name.replace(', ', '`, `')}` | {text} |" for name, text in variables.items())
    yield ""


def _jobs() -> Iterator[str]:
    yield from _variables("Jobs, in CreateTrainingJob's Environment", JOBS)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
