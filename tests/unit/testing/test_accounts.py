"""`sagelet.testing.Account`: accounts of one server, each for one test."""

import re
from pathlib import Path
from urllib.error import HTTPError

import pytest
from botocore.exceptions import ClientError

from sagelet.testing import Server
from sagelet.testing.control import ask


def names(account_session: object) -> list[str]:
    return [one["Name"] for one in account_session.client("s3").list_buckets()["Buckets"]]  # type: ignore[attr-defined]


def test_an_account_is_empty_and_leaves_nothing_behind(server: Server) -> None:
    seen = []
    for _ in range(2):
        with server.account() as account:
            session = account.session()
            seen.append(session.client("sts").get_caller_identity()["Account"])
            assert names(session) == []
            s3 = session.client("s3")
            s3.create_bucket(Bucket="the-same-name")
            for number in range(3):
                s3.put_object(Bucket="the-same-name", Key=f"a/{number}", Body=b"1")
            s3.create_multipart_upload(Bucket="the-same-name", Key="begun")
    assert len({*seen, "123456789012"}) == 3
    assert not (server.data / "s3/the-same-name").exists()


def test_a_second_server_of_a_directory_gives_out_other_accounts(tmp_path: Path) -> None:
    """Ended jobs of the first one's accounts are still there."""
    given = []
    for _ in range(2):
        with Server(tmp_path) as server:
            given += [server.account().id for _ in range(3)]
    assert len(set(given)) == 6
    assert all(re.fullmatch(r"9\d{11}", number) for number in given)


def test_the_end_of_an_account_leaves_other_accounts_alone(server: Server) -> None:
    with server.account() as one:
        s3 = one.session().client("s3")
        s3.create_bucket(Bucket="of-one")
        with server.account() as other:
            other.session().client("s3").create_bucket(Bucket="of-other")
        assert names(one.session()) == ["of-one"]
        with pytest.raises(ClientError, match="404"):
            s3.head_bucket(Bucket="of-other")


def test_sessions_of_a_server_read_a_model_once(server: Server) -> None:
    first, second = server.session(), server.account().session()
    models = [one.client("sagemaker").meta.service_model.metadata for one in (first, second)]
    assert models[0] is models[1]
    waiter = second.client("sagemaker").get_waiter("training_job_completed_or_stopped")
    assert waiter.config.delay < 1


def test_only_who_can_write_into_the_data_directory_empties_an_account(server: Server) -> None:
    for body in ({"account": "123456789012"}, {"account": "123456789012", "proof": f".proof-{'0' * 32}"}):
        with pytest.raises(HTTPError) as refused:
            ask(server.endpoint, server.data, "POST", "empty-account", body)
        assert refused.value.code == 403
    with pytest.raises(HTTPError) as refused:
        ask(server.endpoint, server.data, "POST", "empty-account", {"account": "all"})
    assert refused.value.code == 400
