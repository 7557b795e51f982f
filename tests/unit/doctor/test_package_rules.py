"""The rules on packages that a job does not get, and on what the offline hub does not have."""

import pytest

from sagelet_engine.doctor.case import Progress, Setup
from sagelet_engine.doctor.finding import Finding
from support.doctor_cases import case, found


def failed(text: str) -> Progress:
    return Progress("Failed", exit_code=1, last_lines=text.strip("\n").splitlines())


def of(text: str, script: str = "") -> dict[str, Finding]:
    return found(case(progress=failed(text), script=script))


def instead(finding: Finding) -> str:
    return str(finding.to_json()["instead"])


# --- an installation that failed --------------------------------------------------------------------------------

#: AWS's toolkit, after pip.
REPORTED = """
2026-11-23 10:17:05,506 sagemaker-training-toolkit ERROR    Reporting training FAILURE
2026-11-23 10:17:05,506 sagemaker-training-toolkit ERROR    InstallRequirementsError:
ExitCode 1
"""
#: SDK v3's driver, after pip.
CALLED = """
Traceback (most recent call last):
  File "/opt/ml/input/data/sm_drivers/scripts/install_requirements.py", line 174, in install_requirements
    subprocess.check_call(pip_cmd)
subprocess.CalledProcessError: Command '['/usr/bin/python3', '-m', 'pip', 'install', '-r', 'r.txt']' returned non-zero exit status 1.
"""  # noqa: E501 - as Python prints it
UNKNOWN = """
ERROR: Could not find a version that satisfies the requirement tokenizers<0.13 (from versions: 0.19.1, 0.20.0)
ERROR: No matching distribution found for tokenizers<0.13
"""
CONFLICT = """
ERROR: Cannot install torch==1.12.1 because these package versions have conflicting dependencies.

The conflict is caused by:
    torchtext 0.13.1 depends on torch==1.12.1
    The user requested (constraint) torch==2.9.0

ERROR: ResolutionImpossible: for help visit https://pip.pypa.io/en/latest/topics/dependency-resolution/
"""
BUILD = """
Building wheels for collected packages: tokenizers
  Building wheel for tokenizers (pyproject.toml): finished with status 'error'
  error: subprocess-exited-with-error
  ERROR: Failed building wheel for tokenizers
Failed to build tokenizers
ERROR: Could not build wheels for tokenizers, which is required to install pyproject.toml-based projects
"""
BROKEN = "requirements.txt was installed, and torch_xla cannot be used after it. torch_xla 2.9.0 does not load"


@pytest.mark.parametrize("reported", [REPORTED, CALLED])
def test_a_version_that_has_no_build_here_is_sent_to_the_image_of_its_day(reported: str) -> None:
    finding = of(UNKNOWN + reported)["failed-install"]
    assert '"No matching distribution found for tokenizers<0.13"' in finding.seen.text
    assert "`sagelet image build --variant py39`" in instead(finding)
    assert "`sagelet docs images-of-their-day`" in instead(finding)
    assert "In the process runtime install sagelet into Python 3.10" in instead(finding)


@pytest.mark.parametrize(
    "text",
    [
        BUILD,
        "  note: This error originates from a subprocess, and is likely not a problem with pip.\n"
        "error: metadata-generation-failed",
        "ERROR: Package 'nope' requires a different Python: 3.11.7 not in '<3.9,>=3.6'",
    ],
)
def test_a_source_build_that_failed_is_sent_there_too(text: str) -> None:
    finding = of(text + REPORTED)["failed-install"]
    assert "`sagelet image build --variant py39`" in instead(finding)


def test_the_line_is_quoted_that_names_what_failed() -> None:
    assert "Could not build wheels for tokenizers" in of(BUILD + REPORTED)["failed-install"].seen.text


def test_a_pin_of_what_sagelet_keeps_is_named_with_what_brought_it() -> None:
    finding = of(CONFLICT + REPORTED)["failed-install"]
    assert "torchtext 0.13.1 depends on torch==1.12.1" in finding.seen.text
    assert "torch==2.9.0" in finding.seen.text
    assert "SAGELET_PINS=exact" in instead(finding)


@pytest.mark.parametrize("asked", ["The user requested torch==1.12.1", "torchtext 0.13.1 depends on torch==1.12.1"])
def test_what_sagelet_has_said_of_the_pin_is_not_taken_for_pips_words(asked: str) -> None:
    """AWS's toolkit prints the ErrorMessage once more, behind pip's lines."""
    said = f"""
ErrorMessage "Cannot install torch==1.12.1 because these package versions have conflicting dependencies.
 {asked}. sagelet keeps torch==2.9.0, which torch_xla is built for: take that out of requirements.txt"
"""
    text = of(CONFLICT.replace("torchtext 0.13.1 depends on torch==1.12.1", asked) + REPORTED + said)[
        "failed-install"
    ].seen.text
    assert text.endswith(f"; {asked} collides with torch==2.9.0, which sagelet keeps")


@pytest.mark.parametrize("own", ["numpy==1.0", "torch-fidelity==0.3", "torchtext==0.18"])
def test_a_constraint_of_the_jobs_own_is_not_sagelets(own: str) -> None:
    finding = of(CONFLICT.replace("torch==2.9.0", own) + REPORTED)["failed-install"]
    assert "which sagelet keeps" not in finding.seen.text
    assert "SAGELET_PINS" not in instead(finding)
    kept = of(CONFLICT.replace("torch==2.9.0", "torch-xla==2.9.0") + REPORTED)["failed-install"]
    assert "which sagelet keeps" in kept.seen.text


@pytest.mark.parametrize("versions", ["none", "0.0.1"])
def test_a_misspelled_name_is_corrected_before_a_version_is_recommended(versions: str) -> None:
    text = (
        f"ERROR: Could not find a version that satisfies the requirement reqeusts==2.31 (from versions: {versions})\n"
        "ERROR: No matching distribution found for reqeusts==2.31\n"
    )
    asked = " Did you mean requests? requirements.txt says reqeusts: do not install\n"
    remedy = instead(of(text + REPORTED + asked)["failed-install"])
    assert "probably `requests` in place of `reqeusts`" in remedy
    assert "--variant" not in remedy


def test_a_version_of_a_name_that_the_index_does_not_have() -> None:
    text = (
        "ERROR: Could not find a version that satisfies the requirement zz==1 (from versions: none)\n"
        "ERROR: No matching distribution found for zz==1\n"
    )
    assert "spelling" in instead(of(text + REPORTED)["failed-install"])


def test_a_name_that_the_index_does_not_have() -> None:
    """Without a version it is as likely misspelt."""
    finding = of("ERROR: No matching distribution found for eniops\n" + REPORTED)["failed-install"]
    assert "spelling" in instead(finding)
    assert "--variant" not in instead(finding)


@pytest.mark.parametrize(
    "said",
    [
        "THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.",
        "Hashes are required in --require-hashes mode, but they are missing from some requirements.",
    ],
)
def test_a_hash_that_does_not_fit_or_is_missing(said: str) -> None:
    assert "put its hash into requirements.txt" in instead(of(f"ERROR: {said}\n" + REPORTED)["failed-install"])


def test_an_index_that_is_not_reached() -> None:
    text = (
        "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError'\n"
        "ERROR: Could not find a version that satisfies the requirement einops (from versions: none)\n"
        "ERROR: No matching distribution found for einops\n"
    )
    finding = of(text + REPORTED)["failed-install"]
    assert "PIP_INDEX_URL" in instead(finding)
    assert "--variant" not in instead(finding)


def test_an_installation_without_an_error_of_pips_is_quoted_as_the_toolkit_reports_it() -> None:
    text = f"error: subprocess-exited-with-error\nERROR: Exception:\n{REPORTED.strip()}\n"
    finding = of(f'{text}ErrorMessage "fatal: unable to access\n git clone did not run"')["failed-install"]
    assert 'failed: "fatal: unable to access"' in finding.seen.text


def test_a_torch_that_was_changed() -> None:
    finding = of(f"2026-11-23 sagemaker-training-toolkit ERROR    ClientError:\n{BROKEN}")["failed-install"]
    assert "torch_xla 2.9.0 does not load" in finding.seen.text
    assert "SAGELET_PINS" in instead(finding)


@pytest.mark.parametrize(
    "text",
    [
        # The script lived on with that.
        UNKNOWN + "Traceback (most recent call last):\nValueError: bad data\n",
        "nothing of pip's",
        # A program of the script's that is not pip.
        "subprocess.CalledProcessError: Command '['make']' returned non-zero exit status 2.",
    ],
)
def test_other_failures_are_none_of_pips(text: str) -> None:
    assert "failed-install" not in of(text)
    assert found(case(progress=Progress("Completed", last_lines=(UNKNOWN + REPORTED).splitlines()))) == {}


# --- an import that failed --------------------------------------------------------------------------------------


def traceback(error: str, line: int = 2) -> str:
    return (
        f'Traceback (most recent call last):\n  File "/opt/ml/code/train.py", line {line}, in <module>\n'
        f"    import it\n{error}\n2026 sagemaker-training-toolkit ERROR    ExecuteUserScriptError:\n"
        f'ExitCode 1\nErrorMessage "Traceback (most recent call last)\n {error}"\n'
    )


@pytest.mark.parametrize(
    ("error", "name"),
    [
        ("ModuleNotFoundError: No module named 'einops'", "einops"),
        ("[rank1]: ModuleNotFoundError: No module named 'einops'", "einops"),
        ("ModuleNotFoundError: No module named 'cv2'", "opencv-python-headless"),
        ("ImportError: To support decoding audio files, please install 'librosa'.", "librosa"),
        ("ImportError: T5Converter requires the protobuf library but it was not found.", "protobuf"),
    ],
)  # fmt: skip
def test_a_package_that_is_not_here_can_be_asked_for(error: str, name: str) -> None:
    finding = of(traceback(error), script="import os\nimport it\n")["missing-package"]
    assert error.removeprefix("[rank1]: ") in finding.seen.text
    assert finding.seen.place is not None
    assert (finding.seen.place.file, finding.seen.place.line) == ("train.py", 2)
    assert f"Put `{name}` into the requirements.txt" in instead(finding)
    assert "`sagelet docs reference/packages`" in instead(finding)


def test_a_worker_that_mpiruns_launcher_names() -> None:
    """As each line of pytorchddp and smdistributed begins."""
    prefix = "[1,mpirank:2,algo-1]<stderr>:"
    raised, toolkit = traceback("ModuleNotFoundError: No module named 'einops'").split("2026", 1)
    text = "".join(f"{prefix}{line}\n" for line in raised.splitlines()) + f"2026{toolkit}"
    finding = of(text, script="import os\nimport it\n")["missing-package"]
    assert finding.seen.place is not None
    assert (finding.seen.place.file, finding.seen.place.line) == ("train.py", 2)
    assert prefix not in finding.seen.text


@pytest.mark.parametrize(
    ("printed", "error"),
    [
        (
            "/usr/bin/python3: Error while finding module specification for 'einops.it' (ModuleNotFoundError: No "
            "module named 'einops')",
            "ModuleNotFoundError: No module named 'einops'",
        ),
        ("/job/packages/bin/python: No module named einops", "No module named einops"),
    ],
)
def test_a_module_that_python_was_to_run(printed: str, error: str) -> None:
    """`python -m` prints no traceback."""
    finding = of(f"INFO: python -m einops.it\n{printed}\n")["missing-package"]
    assert f'"{error}"' in finding.seen.text
    assert "Put `einops` into the requirements.txt" in instead(finding)


#: SDK v2's bootstrap of `@step` and `@remote`, after pip.
BOOTSTRAP = """
ERROR: No matching distribution found for sagemaker<3.0.0,>=2.256.0
Traceback (most recent call last):
  File "/opt/ml/input/data/sagemaker_remote_function_bootstrap/runtime_environment_manager.py", line 416, in _run_shell
    raise RuntimeEnvironmentError(error_message)
runtime_environment_manager.RuntimeEnvironmentError: Encountered error while running command '/job/bin/python -m pip install -r /opt/ml/requirements.txt -U'. Reason: ERROR: Could not find a version that satisfies the requirement sagemaker<3.0.0,>=2.256.0 (from versions: none)
ERROR: No matching distribution found for sagemaker<3.0.0,>=2.256.0
"""  # noqa: E501 - as the SDK prints it
RUN = "python: Error while finding module specification for 'sagemaker.core.it' (ModuleNotFoundError: No module named "


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (BOOTSTRAP, "failed-install"),
        (f"{RUN}'sagemaker')\n", "missing-package"),
        # SDK v3's job in an image with SDK v2.
        (f"{RUN}'sagemaker.core')\n", "missing-package"),
    ],
)
def test_a_python_function_whose_job_lacks_the_sdk(text: str, rule: str) -> None:
    finding = of(text)[rule]
    assert "install that SDK into sagelet's own environment" in instead(finding)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        # transformers 4.57, where `datasets` in requirements.txt has brought the newest huggingface_hub.
        (
            "ImportError: huggingface-hub>=0.34.0,<1.0 is required for a normal functioning of this module, but found "
            "huggingface-hub==2.4.0.\nTry: `pip install transformers -U` or `pip install -e '.[dev]'`",
            "huggingface-hub>=0.34.0,<1.0",
        ),
        (
            "ImportError: tokenizers>=0.11.1,!=0.11.3,<0.13 is required for a normal functioning of this module, but "
            "found tokenizers==0.22.2.",
            "tokenizers>=0.11.1,!=0.11.3,<0.13",
        ),
    ],
)
def test_a_package_that_another_one_has_moved_is_held_by_a_line_more(error: str, line: str) -> None:
    finding = of(traceback(error))["missing-package"]
    assert f"Put `{line}` into the requirements.txt" in instead(finding)
    assert "brought" in instead(finding)


@pytest.mark.parametrize("name", ["apex", "smdistributed.modelparallel", "deepspeed", "smdebug.trials"])
def test_what_cannot_be_had_is_not_asked_for(name: str) -> None:
    finding = of(traceback(f"ModuleNotFoundError: No module named '{name}'"))["missing-package"]
    assert "requirements.txt" not in instead(finding)
    assert "`sagelet docs reference/packages`" in instead(finding)


@pytest.mark.parametrize(
    "error",
    [
        "ModuleNotFoundError: No module named 'torch._six'",
        "ModuleNotFoundError: No module named 'distutils'",
        "ImportError: cannot import name 'Mapping' from 'collections' (/usr/lib/python3.11/collections/__init__.py)",
        "ImportError: cannot import name 'load_metric' from 'datasets' (/usr/lib/python3.11/datasets/__init__.py)",
    ],
)
def test_what_a_newer_version_has_no_more_is_in_the_image_of_its_day(error: str) -> None:
    finding = of(traceback(error))["missing-package"]
    assert "`sagelet image build --variant py39`" in instead(finding)


def test_a_module_of_the_users_own_is_to_come_along() -> None:
    finding = of(traceback("ModuleNotFoundError: No module named 'utils'"))["missing-package"]
    assert "source_dir" in instead(finding)


@pytest.mark.parametrize(
    "text",
    [
        # Asked for, not there, and done without.
        "ModuleNotFoundError: No module named 'einops'\nTraceback (most recent call last):\nValueError: bad data",
        "ImportError: attempted relative import with no known parent package",
    ],
)
def test_other_failures_are_no_missing_packages(text: str) -> None:
    assert "missing-package" not in of(text)


def test_what_a_job_prints_is_no_command() -> None:
    """What is to be typed holds names alone: a job writes its log."""
    for text in (
        "ModuleNotFoundError: No module named 'x`; rm -rf ~ `\x1b[2J'",
        "ImportError: x>=1`rm -rf ~` is required for it, but found x==0.",
        "OSError: org/x is not a local folder\nsagelet's hub has no model x;rm -rf ~: add it with `rm -rf ~`",
    ):
        for finding in of(text).values():
            assert "rm -rf" not in instead(finding)


# --- the hub ----------------------------------------------------------------------------------------------------

MISS = (
    "requests.exceptions.HTTPError: 404 Client Error: sagelet's hub has no {what}: add it with `sagelet hub add DIR "
    "--as {name}`, or have the job ask the real Hub by Environment={{'HF_ENDPOINT': 'https://huggingface.co'}}\n"
    "\nThe above exception was the direct cause of the following exception:\n\n"
)


def test_a_model_that_the_hub_does_not_have() -> None:
    error = (
        "OSError: gpt2-xl is not a local folder and is not a valid model identifier listed on 'https://hf.co/models'"
    )
    finding = of(MISS.format(what="model gpt2-xl", name="gpt2-xl") + traceback(error))["not-in-the-hub"]
    assert "the model gpt2-xl" in finding.seen.text
    assert "`sagelet hub add DIR --as gpt2-xl`" in instead(finding)
    assert "`sagelet hub make-tiny gpt2-xl`" in instead(finding)
    assert finding.seen.place is not None


def test_a_small_model_whose_name_says_no_family_needs_it() -> None:
    error = (
        "OSError: org/own is not a local folder and is not a valid model identifier listed on 'https://hf.co/models'"
    )
    finding = of(MISS.format(what="model org/own", name="org/own") + traceback(error))["not-in-the-hub"]
    assert "`sagelet hub make-tiny org/own --like FAMILY`" in instead(finding)


def test_a_data_set_that_the_hub_does_not_have() -> None:
    error = (
        "datasets.exceptions.DatasetNotFoundError: Dataset 'org/none' doesn't exist on the Hub or cannot be accessed."
    )
    finding = of(MISS.format(what="dataset org/none", name="org/none --dataset") + traceback(error))["not-in-the-hub"]
    assert "`sagelet hub add DIR --as org/none --dataset`" in instead(finding)
    assert "make-tiny" not in instead(finding)


@pytest.mark.parametrize(
    "after", ["", "ErrorMessage \"sagelet's hub has no model org/none: add it with `sagelet hub\n"]
)
def test_a_miss_because_the_server_is_offline_says_so(after: str) -> None:
    """The text is that of sagelet_api.serve. The toolkit repeats the error, and cuts it."""
    why = "The real Hub was not asked, because the server runs with --offline"
    miss = MISS.format(what="model org/none", name="org/none").replace("'}\n", f"'}}. {why}\n", 1)
    assert why in miss
    error = "OSError: none is not a valid model identifier listed on 'https://hf.co/models'"
    finding = of(miss + traceback(error) + after)["not-in-the-hub"]
    assert "the server runs with --offline, so the real Hub was not asked" in finding.seen.text
    assert "A server without --offline asks the real Hub" in instead(finding)
    assert "HF_ENDPOINT" not in instead(finding)


def test_a_file_and_a_revision_that_the_hub_does_not_have() -> None:
    file = "The model org/one in sagelet's hub has no file pytorch_model.bin: add the repository again, with it, by `x`"
    error = "OSError: org/one does not appear to have a file named pytorch_model.bin."
    finding = of(f"{file}\n{traceback(error)}")["not-in-the-hub"]
    assert "pytorch_model.bin" in finding.seen.text
    assert "`sagelet hub add DIR --as org/one`" in instead(finding)
    revision = "sagelet's hub has the model org/one, but no revision v2: add it with `sagelet hub add DIR --as org/one`"
    error = "huggingface_hub.errors.RevisionNotFoundError: 404 Client Error."
    told = instead(of(f"{revision}\n{traceback(error)}")["not-in-the-hub"])
    assert "`sagelet hub add DIR --as org/one --revision v2`" in told


def test_a_space_that_the_hub_does_not_have() -> None:
    error = "FileNotFoundError: Couldn't find a module script at /opt/ml/code/accuracy/accuracy.py."
    miss = MISS.format(what="space evaluate-metric/accuracy", name="evaluate-metric/accuracy --space")
    findings = of(miss + traceback(error))
    assert "--as evaluate-metric/accuracy --space`" in instead(findings["not-in-the-hub"])
    assert "missing-file" not in findings


def test_the_real_hub_without_a_network() -> None:
    error = (
        "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in cache."
    )
    finding = of(traceback(error))["not-in-the-hub"]
    assert "the real Hub" in finding.seen.text
    assert "HF_ENDPOINT" in instead(finding)


def test_a_miss_that_the_script_lived_with_is_none() -> None:
    miss = MISS.format(what="model gpt2-xl", name="gpt2-xl")
    assert "not-in-the-hub" not in of(miss + traceback("ValueError: bad data"))
    gentle = "The model gpt2 in sagelet's hub has no file adapter_config.json: add the repository again"
    assert "not-in-the-hub" not in of(f"{gentle}\n{traceback('RuntimeError: shapes')}")


def test_the_toolkits_second_showing_of_a_traceback_moves_no_place() -> None:
    """It is cut in the middle, where the script's own line may be."""
    shown = (
        'Traceback (most recent call last):\n  File "/opt/ml/code/train.py", line 2, in <module>\n    f()\n'
        "  File \"/opt/ml/code/train.py\", line 4, in f\n    import it\nModuleNotFoundError: No module named 'it'\n"
        'ExitCode 1\nErrorMessage "Traceback (most recent call last)\n File "/opt/ml/code/train.py", line 2\n ...\n'
    )
    place = of(shown, script="import os\nf()\ndef f():\n    import it\n")["missing-package"].seen.place
    assert place is not None
    assert place.line == 4


def test_an_isolated_job_is_not_sent_to_the_hub() -> None:
    error = (
        "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in cache."
    )
    failed = Progress("Failed", exit_code=1, last_lines=("Traceback (most recent call last):", error))
    finding = found(case(setup=Setup(isolated=True), progress=failed))["not-in-the-hub"].seen
    assert "which a job with EnableNetworkIsolation does not reach" in finding.text
    assert finding.instead is not None
    assert "a channel" in finding.instead
    assert "hub add" not in finding.instead
