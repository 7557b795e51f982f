"""`sagelet check`: checks a data directory and repairs it."""

from dataclasses import asdict

import click

from sagelet_api.cli.directories import own_directory
from sagelet_api.cli.exit_codes import DONE, ERROR
from sagelet_api.cli.options import account_directory_options, json_option
from sagelet_api.cli.output import console
from sagelet_api.cli.text import echo_json, printable, size
from sagelet_api.servers.server import Server
from sagelet_engine.base.errors import DataDirectoryInUse
from sagelet_engine.state.checking.report import Finding, Report


@click.command()
@click.option("--repair", is_flag=True, help="Mend what can be mended safely, and say each thing that is done.")
@json_option
@click.pass_context
@account_directory_options
def check(context: click.Context, repair: bool, as_json: bool, server: Server) -> None:
    """Check the data directory.

    Checks all bytes of objects by their checksums and ETags, the catalogue against files, jobs against their
    directories, the files of the hub, and both databases by SQLite's own check. Each problem is one line with its
    remedy. Exits with 1
    if a problem is left to repair. No server may run on the directory (`sagelet down`). Beside a server, `sagelet
    doctor` and /_sagelet/health check the databases.

    --repair deletes no bytes: files that are in the way are moved to DATA/set-aside-ID. It makes a new database of the
    readable rows of a damaged one, and makes a lost catalogue anew from the objects' files. --account and --region are
    for buckets that neither their name nor a job assigns to an account.
    """
    from sagelet_engine.state.checking.check import check_data

    data = own_directory(server)
    try:
        with console(stderr=True).status("reading all that is there"):
            found = check_data(data, server.account, server.region, repair=repair)
    except DataDirectoryInUse as error:
        raise DataDirectoryInUse(f"{error}. A directory is checked when no server runs on it") from error
    if as_json:
        findings = [asdict(one) for one in found.findings]
        counts = {name: getattr(found, name) for name in ("objects", "bytes", "jobs", "repositories")}
        echo_json({"data": str(data), "repair": repair, "sound": found.sound, **counts, "findings": findings})
    else:
        _tell(found)
    context.exit(DONE if found.sound else ERROR)


def _tell(found: Report) -> None:
    for one in found.findings:
        click.echo(printable(f"{_mark(one)}: {one.what}. {_end(one)}"))
    left = sum(one.damage and not one.mended for one in found.findings)
    verdict = f"{left} to mend" if left else "all is sound"
    hub = f", repositories of the hub {found.repositories}" if found.repositories else ""
    looked = f"objects {found.objects} ({size(found.bytes)}){hub}, jobs {found.jobs}"
    click.echo(f"Looked at: {looked}. {verdict.capitalize()}.")


def _mark(finding: Finding) -> str:
    if finding.mended:
        return "mended"
    return "damaged" if finding.damage else "note"


def _end(finding: Finding) -> str:
    return f"Done: {finding.mended}" if finding.mended else f"Remedy: {finding.remedy}"
