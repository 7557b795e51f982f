"""Calls of a script over the network, to the internet and to AWS's services."""

import re
from collections.abc import Iterator

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity
from sagelet_engine.doctor.rules.failures import failed_at, last_error, quoted

_NETWORK = re.compile(
    r"^(?!botocore\.)(?:[\w.]*\b(?:URLError|ConnectionError|ConnectTimeout(?:Error)?|ReadTimeout(?:Error)?|gaierror|"
    r"NewConnectionError|NameResolutionError|MaxRetryError|ProxyError|SSLError|SSLCertVerificationError|ConnectError|"
    r"ConnectionRefusedError|TimeoutError|ClientConnectorError))\b"
)
#: An isolated job does not reach sagelet either.
_ENDPOINT = re.compile(r"^botocore\.exceptions\.(EndpointConnectionError|ConnectTimeoutError|ReadTimeoutError)\b")
#: The offline hub has a rule of its own.
_HUB = re.compile(r"huggingface\.co\b|sagelet's hub")
_CERTIFICATE = "CERTIFICATE_VERIFY_FAILED"
_AWS = re.compile(r"^(botocore\.(errorfactory|exceptions)|boto3\.exceptions)\.\w+|^[\w.]+: An error occurred \(\w+\)")
_CODE = re.compile(r"An error occurred \((?P<code>[\w.]+)\) when calling the (?P<operation>\w+) operation")
_ABSENT = ("404", "NoSuchKey", "NoSuchBucket", "NotFound", "ResourceNotFoundException")
_DENIED = ("403", "AccessDenied", "AccessDeniedException")

_COPY = (
    "Bring it here first: `sagelet s3 import DIRECTORY s3://BUCKET/PREFIX` for files, or create it with boto3 through "
    "`sagelet run`. A job's calls of AWS go to sagelet, not to AWS, so it sees only what is here."
)
_ISOLATED = (
    "Take EnableNetworkIsolation out of the request (`enable_network_isolation` of the estimator or of the processor's "
    "NetworkConfig). Or bring what the script asks for with the job's inputs: an isolated job reaches no server, not "
    "even S3, as on AWS."
)
_RIGHTS = (
    "Let the role of the job do it: its policies count here as on AWS (`sagelet docs access-control`). In another "
    "account's bucket the bucket's policy has to permit it, too."
)
_SERVICE = "`sagelet docs differences-from-aws` says which services and operations sagelet answers."


def network(case: Case) -> Iterator[Seen]:
    error, isolated = last_error(case), case.setup.isolated
    if error is None or not (_NETWORK.match(error) or (isolated and _ENDPOINT.match(error))):
        return
    if not isolated and _HUB.search(error):
        return
    place = failed_at(case)
    why = ", and the job has EnableNetworkIsolation" if isolated else ""
    text = f"The script did not reach a server{why}: {quoted(error)}{case.sources.quoted(place)}"
    instead = _ISOLATED if isolated else None
    if _CERTIFICATE in error and not isolated:
        instead = (
            "Give the job your network's certificate authority: SSL_CERT_FILE and REQUESTS_CA_BUNDLE in its "
            "Environment name a file of the image, and `sagelet image build` puts this machine's certificates into it."
        )
    yield Seen(Severity.ERROR, text, place, instead=instead)


def aws(case: Case) -> Iterator[Seen]:
    error = last_error(case)
    place = failed_at(case)
    # AWS's toolkit calls AWS, too. No toolkit is around a processing job.
    if error is None or not _AWS.match(error) or (place is None and case.processing is None):
        return
    told = _CODE.search(error)
    code = told["code"] if told else ""
    instead = _COPY if code in _ABSENT else _RIGHTS if code in _DENIED else None
    text = f"A call of AWS failed: {quoted(error)}{case.sources.quoted(place)}"
    yield Seen(Severity.ERROR, text, place, instead=instead)


NETWORK = Rule(
    name="no-network",
    why="A job reaches what its machine reaches. It reaches nothing with EnableNetworkIsolation, or if its "
    "network has a proxy whose address the job does not have.",
    instead="Bring the data as a channel (InputDataConfig) or in the source directory. Behind a proxy set HTTPS_PROXY "
    "in the job's Environment.",
    section=Section.RUNNING,
    check=network,
    last_resort=True,
)
AWS = Rule(
    name="aws-call",
    why="Calls of AWS's services that a job makes are answered by sagelet, in the job's account and region.",
    instead=f"Correct the call. {_SERVICE} A client for another region needs region_name.",
    section=Section.RUNNING,
    check=aws,
    last_resort=True,
)
