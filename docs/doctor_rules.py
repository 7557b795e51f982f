"""Makes docs/reference/doctor.md: every rule of the doctor, its reason and its remedy. `make docs` runs it."""

from collections.abc import Iterator
from pathlib import Path

from sagelet_engine.doctor.finding import TITLES, Rule
from sagelet_engine.doctor.rules import PROCESSING_RULES, RULES

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "doctor.md"
EXAMPLES = ROOT / "examples" / "best_practices"
_INTRODUCTION = """\
# The doctor

Made by `make docs` from the rules in `emulator/sagelet_engine/doctor`; do not edit.

The doctor compares a compiled job with AWS's best practices for the SageMaker Training Compiler. It judges
what the job did (its compile report), not how its script looks. The script only shows the place. So there is no finding
for a job that did well by chance, or that did too few steps to judge. The last rules apply to any job: they say what
ended it, and what to do. A job that failed has at least one finding of severity `error`.

| where | what |
| --- | --- |
| `sagelet doctor JOB [--json]` | all findings; also while the job runs |
| `sagelet describe JOB`, the job's page | the worst finding: what happened, why, and what to do |
| `GET /_sagelet/jobs/JOB/doctor?account=&region=` | the same as JSON |
| `compiler-report.json`, `sagelet report JOB --json` | the member `findings` |
| the job's log | a short section at its end; the last line says what to do |

A finding is

```text
{"rule": "explicit-evaluation", "severity": "warning", "seen": "...",
 "file": "train.py", "line": 17, "count": 600, "cost_seconds": 0.3, "why": "...", "instead": "...", "source": "https://docs.aws.amazon.com/..."}
```

`file`, `line`, `count` and `cost_seconds` (an estimate) are left out if they are not known. The most severe findings
come first, and within a severity those that cost most:

- **error**: the job failed because of it, would stall on AWS, or has a wrong result;
- **warning**: it costs a share of the training that is worth a change;
- **info**: good to know.

The scripts below are in `examples/best_practices`. `make doctor-scripts` runs them all, those for several workers with
two, and records their reports, which the tests replay. One script stalls; it is ended when it makes no progress.
`SAGELET_TEST_DOCTOR=all pytest tests/acceptance/test_doctor.py` runs all the others as jobs in Docker.
Rules that compare with a native job need one that completed here before, with the same scripts. Its hyperparameters may
differ only in batch size, learning rate, steps and epochs.

AWS's list of "Tested Models" is not a rule, because sagelet cannot tell the model from a script.
"""
_PROCESSING = """\
## Processing jobs

The doctor says of a processing job what ended it, and which output it left empty. `sagelet processing doctor JOB`,
`sagelet processing describe JOB`, the job's page and the end of its log have the findings. So does
`GET /_sagelet/processing/JOB/doctor?account=&region=`. What happened is also in FailureReason, where AWS says nothing:
`AlgorithmError: The script ended with an error: ..., exit code: 1`.
"""


def page() -> str:
    training = "".join(f"\n{part}" for rule in RULES for part in _rule(rule, "##"))
    processing = "".join(f"\n{part}" for rule in PROCESSING_RULES for part in _rule(rule, "###"))
    return f"{_INTRODUCTION}{training}\n{_PROCESSING}{processing}"


def _rule(rule: Rule, heading: str) -> Iterator[str]:
    yield f"{heading} {rule.name}\n"
    yield f"{rule.why}\n"
    yield f"Instead: {rule.instead}\n"
    yield f"Source: [{TITLES[rule.section]}]({rule.section.value})\n"
    if rule.thresholds:
        rows = "".join(f"| {one.value:g} | {one.meaning} | {one.reason} |\n" for one in rule.thresholds)
        yield f"| threshold | of | reason |\n| --- | --- | --- |\n{rows}"
    scripts = [f"`{path.name}`" for path in (examples(rule) if heading == "##" else ())]
    if scripts:
        yield f"Scripts: {', '.join(scripts)}\n"


def examples(rule: Rule) -> list[Path]:
    """The rule's scripts: they name it in their first line."""
    wanted = f"({rule.name})"
    return [path for path in sorted(EXAMPLES.glob("*.py")) if wanted in path.read_text().splitlines()[0]]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
