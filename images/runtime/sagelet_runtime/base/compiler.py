"""Configuration of the Training Compiler: reads the hyperparameters and makes the environment that they ask for.

AWS's own module is in its private images. The lines, their order and the variables come from AWS's logs and from the
one public copy of that module. All functions here are pure except `announce`, `configure` and the logger behind them.
"""

import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from sagelet_runtime.base.variables import CONFIGURED

ENABLED = "sagemaker_training_compiler_enabled"
DEBUG = "sagemaker_training_compiler_debug_mode"
MULTI_WORKER = "sagemaker_pytorch_xla_multi_worker_enabled"

#: Files of debug mode, by the variable that names each. The names are AWS's where AWS has one.
DEBUG_FILES = {
    "PT_XLA_DEBUG_FILE": "PT_XLA_DEBUG.txt",
    "XLA_SAVE_TENSORS_FILE": "XLA_SAVE_TENSORS_FILE.hlo",
    "XLA_METRICS_FILE": "XLA_METRICS_FILE.txt",
}

_TRUE = {"true", "1", "yes"}
_FALSE = {"false", "0", "no", "none", ""}


class CompilerConfigurationError(Exception):
    """A hyperparameter of the Training Compiler has a value that is not a boolean."""

    def __init__(self, name: str, value: object) -> None:
        super().__init__(f'The hyperparameter {name} is {value!r}; use "true" or "false".')


@dataclass(frozen=True)
class CompilerConfig:
    """The SDK's `compiler_config=TrainingCompilerConfig(enabled, debug)`, as it comes out of the hyperparameters."""

    enabled: bool = False
    debug: bool = False
    #: `distribution={"pytorchxla": {"enabled": True}}`
    multi_worker: bool = False


def parse_flag(name: str, value: object) -> bool:
    """Parses a boolean. The SDKs and people send `"true"`, `"\\"true\\""`, True and `"True"`.

    Raises CompilerConfigurationError for any other value.
    """
    text = str(value).strip().strip("\"'").strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise CompilerConfigurationError(name, value)


def config_from_parameters(parameters: Mapping[str, object]) -> CompilerConfig:
    """Reads the configuration from hyperparameters, or from those that the toolkit calls framework parameters."""
    flags = {name: parse_flag(name, parameters.get(name, False)) for name in (ENABLED, DEBUG, MULTI_WORKER)}
    return CompilerConfig(flags[ENABLED], flags[DEBUG], flags[MULTI_WORKER])


def debug_directory(output_data_dir: str) -> str:
    """Returns the directory that becomes `compiler/` in output.tar.gz, where AWS puts the artifacts of debug mode."""
    return os.path.join(output_data_dir, "compiler")


def wanted_environment(config: CompilerConfig, output_data_dir: str) -> dict[str, str]:
    """Returns AWS's variables of a compiled job. Of the debug variables, only those that torch_xla 2.9 acts on."""
    wanted = {"GPU_NUM_DEVICES": "1", CONFIGURED: "1"}
    if not config.debug:
        return wanted
    directory = debug_directory(output_data_dir)
    switches = dict.fromkeys(("PT_XLA_DEBUG", "XLA_IR_DEBUG", "XLA_HLO_DEBUG", "XLA_DUMP_FATAL_STACK"), "1")
    files = {variable: os.path.join(directory, name) for variable, name in DEBUG_FILES.items()}
    return wanted | switches | files | {"XLA_SAVE_TENSORS_FMT": "hlo"}


def announce(config: CompilerConfig, output_data_dir: str, level: int = logging.INFO) -> logging.Logger:
    """Prints AWS's lines to stdout, in AWS's order. Returns the logger, for further lines on the configuration."""
    logger = _logger(level)
    logger.info("Found configuration for Training Compiler")
    logger.info("Configuring SM Training Compiler... ")
    if config.debug:
        logger.warning(
            "Training Compiler set to debug mode. This may impact performance. Debug artifacts will be saved in %s. ",
            debug_directory(output_data_dir),
        )
    return logger


def configure(config: CompilerConfig, output_data_dir: str, environ: Mapping[str, str], level: int) -> dict[str, str]:
    """Announces, makes the debug directory, and returns the variables to add. A variable that the user set stays."""
    logger = announce(config, output_data_dir, level)
    if config.debug:
        os.makedirs(debug_directory(output_data_dir), exist_ok=True)
    added = {}
    for name, value in wanted_environment(config, output_data_dir).items():
        if name in environ:
            logger.warning("Found pre-existing configuration %s=%s.", name, environ[name])
        else:
            added[name] = value
    return added


def _logger(level: int) -> logging.Logger:
    logger = logging.getLogger(f"{__name__}.TrainingCompilerConfig")
    logger.setLevel(level)
    logger.propagate = False
    handler = logging.StreamHandler(sys.stdout)
    form = "[%(asctime)s.%(msecs)03d %(name)s %(levelname)s] %(message)s"
    handler.setFormatter(logging.Formatter(form, datefmt="%Y-%m-%d %H:%M:%S"))
    logger.handlers = [handler]
    return logger
