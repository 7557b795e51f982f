"""The compile cache: entries outlive successful jobs, and no job can spoil another's."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sagelet_api.cli.main import main
from sagelet_engine.base.errors import SettingsError
from sagelet_engine.compile_cache import inductor, plugin_verdicts
from sagelet_engine.compile_cache.host_copies import PLACE, UNREAD
from sagelet_engine.compile_cache.store import DRAFTS, MAGIC, CacheStore, Entry
from sagelet_engine.model.job import JobKey
from sagelet_engine.settings import GpuPolicy, Settings
from support.fakes import FakeHost
from support.world import World, request, until

UUID = "GPU-00000000-0000-0000-0000-000000000000"
ACCOUNT, IMAGE = "123456789012", "sagelet/training:0.1.0"
GPU = {
    "ResourceConfig": {"InstanceType": "ml.p3.2xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1},
    "HyperParameters": {"sagemaker_training_compiler_enabled": "true"},
}


def named(program: str) -> str:
    return hashlib.sha256(program.encode()).hexdigest()


def whole(program: str, size: int = 100) -> bytes:
    """An entry as pjrt_front.c writes it (test_runtime_pjrt_front.py has real ones)."""
    body = program.encode().ljust(size, b".")
    return MAGIC + hashlib.sha256(body).digest() + body


@pytest.fixture
def store(tmp_path: Path) -> CacheStore:
    return CacheStore(tmp_path, 10_000)


def put(store: CacheStore, tmp_path: Path, program: str, now_ms: int, size: int = 100, account: str = ACCOUNT) -> bool:
    source = tmp_path / named(program)
    source.write_bytes(whole(program, size))
    return store.publish(account, IMAGE, source, now_ms)


def names(entries: list[Entry]) -> list[str]:
    return [entry.name for entry in entries]


def test_entries_are_listed_by_their_last_use(store: CacheStore, tmp_path: Path) -> None:
    for number, program in enumerate(("a", "b", "c"), 1):
        assert put(store, tmp_path, program, number * 1000)
    store.use(ACCOUNT, IMAGE, named("a"), 9000)
    assert names(store.entries()) == [named("b"), named("c"), named("a")]
    assert store.entries()[-1] == Entry(ACCOUNT, IMAGE, named("a"), 140, 9000)
    assert store.size() == 420


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    store = CacheStore(tmp_path, 300)
    for number, program in enumerate(("a", "b", "c"), 1):
        put(store, tmp_path, program, number * 1000)
    store.use(ACCOUNT, IMAGE, named("a"), 9000)
    assert names(store.trim()) == [named("b")]
    assert store.size() <= 300
    assert store.trim() == []
    assert not put(store, tmp_path, "big", 9000, size=1000), "larger than all of the cache"


@pytest.mark.parametrize("content", [b"", MAGIC, whole("a")[:-1], whole("a") + b"?", b"SAGELET2" + whole("a")[8:]])
def test_what_is_not_whole_is_not_published(store: CacheStore, tmp_path: Path, content: bytes) -> None:
    source = tmp_path / named("a")
    source.write_bytes(content)
    assert not store.publish(ACCOUNT, IMAGE, source, 1000)
    assert store.entries() == []
    assert list((store.root / DRAFTS).iterdir()) == []


def test_neither_links_nor_fifos_nor_strange_names_are_published(store: CacheStore, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(whole("a"))
    (tmp_path / named("link")).symlink_to(secret)
    os.mkfifo(tmp_path / named("fifo"))
    for source in (tmp_path / named("link"), tmp_path / named("fifo"), secret):
        assert not store.publish(ACCOUNT, IMAGE, source, 1000)
    assert store.entries() == []


def test_an_entry_that_is_there_stays(store: CacheStore, tmp_path: Path) -> None:
    put(store, tmp_path, "a", 1000)
    source = tmp_path / named("a")
    source.write_bytes(whole("another program under the name of a"))
    assert store.publish(ACCOUNT, IMAGE, source, 2000)
    assert (store.directory(ACCOUNT, IMAGE) / named("a")).read_bytes() == whole("a")


def test_a_process_that_is_killed_leaves_whole_entries(store: CacheStore, tmp_path: Path) -> None:
    """It publishes without end, and is killed in the midst of it."""
    code = """
import hashlib, pathlib, sys
from sagelet_engine.compile_cache.store import MAGIC, CacheStore
store, source = CacheStore(pathlib.Path(sys.argv[1]), 10**12), pathlib.Path(sys.argv[1])
for number in range(10**6):
    body = str(number).encode() * 400_000
    file = source / hashlib.sha256(str(number).encode()).hexdigest()
    file.write_bytes(MAGIC + hashlib.sha256(body).digest() + body)
    store.publish("1", "image", file, 1000)
    file.unlink()
"""
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
    until(lambda: len(store.entries()) >= 5, 120)
    process.kill()
    process.wait()
    for entry in store.entries():
        data = (store.directory("1", "image") / entry.name).read_bytes()
        assert data[8:40] == hashlib.sha256(data[40:]).digest()
    store.recover()
    assert list((store.root / DRAFTS).glob("*")) == []


def test_an_entry_says_what_it_is(store: CacheStore) -> None:
    names = [named("a"), named("b") + ".inductor", named("c") + ".trial"]
    for at, name in enumerate(names):
        store.add(ACCOUNT, IMAGE, name, b"body", at * 1000)
    kinds = [entry.kind for entry in store.entries()]
    assert kinds == ["XLA's program", "Inductor's file", "trial of a plugin"]


def test_commands(store: CacheStore, tmp_path: Path) -> None:
    put(store, tmp_path, "a", 1_700_000_000_000)
    put(store, tmp_path, "b", 1_700_000_060_000, account="210987654321")
    ran = CliRunner().invoke(main, ["cache", "ls", "--data", str(tmp_path)])
    assert ran.exit_code == 0, ran.output
    assert ran.stdout.splitlines()[0].split("\t") == [
        named("a")[:16], "140", "2023-11-14T22:13:20.000Z", ACCOUNT, IMAGE, "XLA's program",
    ]  # fmt: skip
    assert len(ran.stdout.splitlines()) == 2
    assert ran.stderr == "2 entries, 280 bytes\n"

    def asked(*arguments: str) -> Any:
        return json.loads(CliRunner().invoke(main, ["cache", *arguments, "--data", str(tmp_path), "--json"]).output)

    assert [entry["account"] for entry in asked("ls")] == [ACCOUNT, "210987654321"]
    assert asked("size") == {"entries": 2, "bytes": 280}
    assert asked("clear", "--account", ACCOUNT) == {"entries": 1, "bytes": 140}
    assert asked("clear", "--image", "another") == {"entries": 0, "bytes": 0}
    assert asked("clear") == {"entries": 1, "bytes": 140}
    assert asked("ls") == []


@pytest.mark.parametrize(
    ("text", "size"), [("0", 0), ("7", 7), ("500M", 500 * 1024**2), ("1.5GiB", 3 * 1024**3 // 2), ("2 tb", 2 * 1024**4)]
)
def test_sizes(text: str, size: int) -> None:
    from sagelet_api.cli.up_options import Size

    assert Size().convert(text, None, None) == size


def test_a_negative_size_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--compile-cache-size -1"):
        Settings(data=tmp_path, compile_cache_bytes=-1)


# --- jobs ---------------------------------------------------------------------------------------------------------


class Cached:
    """Jobs with a GPU; the tests play their workers, which read and write entries as the plugin's front does."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.store = CacheStore(world.settings.data, world.settings.compile_cache_bytes)

    def start(self, name: str, account: str = ACCOUNT) -> FakeHost:
        world, key = self.world, JobKey(account, "us-east-1", name)
        job = world.engine.jobs.create(key, request(name, **GPU), {})
        host: FakeHost = until(lambda: world.runtime.hosts.get(f"{job.id}/algo-1"))
        return host

    def place(self, host: FakeHost) -> Path:
        return host.plan.hosts[0].opt_ml / PLACE

    def compile(self, host: FakeHost, *programs: str) -> list[str]:
        """What a worker does; returns the programs that it did not have to compile."""
        hits = []
        for program in programs:
            file = self.place(host) / named(program)
            if file.exists():
                assert file.read_bytes() == whole(program)
                os.utime(file)
                hits.append(program)
            else:
                file.write_bytes(whole(program))
        return hits

    def end(self, name: str, host: FakeHost, code: int = 0, account: str = ACCOUNT) -> None:
        host.end(code)
        until(lambda: self.world.engine.jobs.get(JobKey(account, "us-east-1", name)).terminal)

    def kept(self) -> set[str]:
        return set(names(self.store.entries()))


@pytest.fixture
def make_cached(make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Cached]:
    monkeypatch.setattr("sagelet_engine.engine.detect_gpus", lambda: (UUID,))
    return lambda **settings: Cached(make_world(gpus=GpuPolicy.REQUIRE, **settings))


@pytest.fixture
def cached(make_cached: Callable[..., Cached]) -> Cached:
    return make_cached()


def test_cold_then_warm(cached: Cached) -> None:
    cold = cached.start("cold")
    assert cold.plan.environment["SAGELET_COMPILE_CACHE"] == f"/opt/ml/{PLACE}"
    assert cached.compile(cold, "step", "eval") == []
    assert cached.kept() == set(), "nothing is kept before the job has succeeded"
    cached.end("cold", cold)
    assert cached.kept() == {named("step"), named("eval")}
    assert not cached.place(cold).exists(), "its copies are gone"
    cached.world.clock.turn(60)
    warm = cached.start("warm")
    assert cached.compile(warm, "step", "new") == ["step"]
    cached.end("warm", warm)
    assert names(cached.store.entries())[0] == named("eval"), "the only one that the second job did not read"


@pytest.mark.parametrize("code", [1, 137])
def test_a_failed_job_leaves_nothing(cached: Cached, code: int) -> None:
    host = cached.start("a")
    cached.compile(host, "step")
    cached.end("a", host, code)
    assert cached.kept() == set()


def test_a_stopped_job_leaves_nothing(cached: Cached) -> None:
    host = cached.start("a")
    cached.compile(host, "step")
    cached.world.engine.jobs.stop(JobKey(ACCOUNT, "us-east-1", "a"))
    cached.end("a", host)
    assert cached.kept() == set()


def test_a_job_cannot_change_what_others_get(cached: Cached) -> None:
    first = cached.start("first")
    cached.compile(first, "step")
    cached.end("first", first)
    bad = cached.start("bad")
    copy = cached.place(bad) / named("step")
    copy.write_bytes(whole("poison"))
    (cached.place(bad) / named("torn")).write_bytes(whole("torn")[:50])
    (cached.place(bad) / "notes.txt").write_text("not an entry")
    cached.end("bad", bad)
    assert cached.kept() == {named("step")}
    assert cached.compile(cached.start("third"), "step") == ["step"], "compile() compares the content"


def test_what_a_worker_could_not_load_is_dropped(cached: Cached) -> None:
    first = cached.start("first")
    cached.compile(first, "step", "eval")
    cached.end("first", first)
    second = cached.start("second")
    copy = cached.place(second) / named("step")
    copy.rename(copy.with_suffix(".broken"))
    (cached.place(second) / f"{named('eval')}.broken").write_bytes(whole("not the one that is kept"))
    cached.compile(second, "step")
    cached.end("second", second)
    assert cached.kept() == {named("eval")}, "an existing program is never changed, so the next job compiles it"
    third = cached.start("third")
    assert cached.compile(third, "step", "eval") == ["eval"]
    cached.end("third", third)
    assert cached.kept() == {named("step"), named("eval")}


def test_a_link_in_the_place_of_the_directory_is_not_followed(cached: Cached, tmp_path: Path) -> None:
    host = cached.start("a")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / named("step")).write_bytes(whole("step"))
    cached.place(host).rmdir()
    cached.place(host).symlink_to(elsewhere)
    cached.end("a", host)
    assert cached.kept() == set()
    assert (elsewhere / named("step")).exists()


def test_accounts_share_nothing(cached: Cached) -> None:
    first = cached.start("first")
    cached.compile(first, "step")
    cached.end("first", first)
    other = cached.start("other", "210987654321")
    assert cached.compile(other, "step") == []
    cached.end("other", other, account="210987654321")
    assert {entry.account for entry in cached.store.entries()} == {ACCOUNT, "210987654321"}


def test_the_cache_is_trimmed_after_each_job(make_cached: Callable[..., Cached]) -> None:
    cached = make_cached(compile_cache_bytes=300)
    for name in ("a", "b", "c"):
        host = cached.start(name)
        cached.compile(host, name)
        cached.end(name, host)
        cached.world.clock.turn(60)
    assert cached.kept() == {named("b"), named("c")}


def test_a_restart_in_training_keeps_what_comes_after(cached: Cached) -> None:
    host = cached.start("a")
    cached.compile(host, "step")
    drafts = cached.store.root / DRAFTS
    drafts.mkdir(parents=True)
    (drafts / "left-behind.1").write_bytes(b"half")
    cached.world.restart()
    assert list(drafts.iterdir()) == []
    cached.end("a", host)
    assert cached.kept() == {named("step")}


def test_size_0_is_off(make_cached: Callable[..., Cached]) -> None:
    cached = make_cached(compile_cache_bytes=0)
    host = cached.start("a")
    assert "SAGELET_COMPILE_CACHE" not in host.plan.environment
    assert not cached.place(host).exists()


def test_native_jobs_have_none(world: World) -> None:
    world.create("native")
    assert "SAGELET_COMPILE_CACHE" not in world.host("native").plan.environment


def test_copies_are_marked_unread(cached: Cached) -> None:
    first = cached.start("first")
    cached.compile(first, "step")
    cached.end("first", first)
    second = cached.start("second")
    copy = cached.place(second) / named("step")
    assert copy.stat().st_mtime == UNREAD
    assert copy.stat().st_ino != (cached.store.directory(ACCOUNT, IMAGE) / named("step")).stat().st_ino


@pytest.mark.parametrize(("client", "has_one"), [("plugin", True), ("builtin", False), (None, True)])
def test_a_job_on_cpus_has_a_cache_if_its_client_can_read_one(
    make_world: Callable[..., World], client: str | None, has_one: bool
) -> None:
    world = make_world()
    variables = {} if client is None else {"SAGELET_XLA_CLIENT": client}
    on_cpus = {"ResourceConfig": {**GPU["ResourceConfig"], "InstanceType": "ml.m5.large"}, "Environment": variables}
    key = JobKey(ACCOUNT, "us-east-1", "cpu")
    job = world.engine.jobs.create(key, request("cpu", **{**GPU, **on_cpus}), {})
    host: FakeHost = until(lambda: world.runtime.hosts.get(f"{job.id}/algo-1"))
    assert ("SAGELET_COMPILE_CACHE" in host.plan.environment) is has_one


# --- verdicts on plugins -------------------------------------------------------------------------------------------

WORKS = {"works": True, "reason": "", "api": "0.116", "tried_s": 1000}
FAILS = {"works": False, "reason": "No visible GPU devices.", "api": "0.116", "tried_s": 1000}
VERDICT = f"{named('verdict')}.trial"


def said(host: FakeHost, cached: Cached, verdict: object, name: str = VERDICT) -> Path:
    file = cached.place(host) / name
    file.write_text(json.dumps(verdict))
    return file


def verdict_of(cached: Cached) -> Any:
    (entry,) = (one for one in cached.store.entries() if one.name == VERDICT)
    return json.loads(cached.store.body(entry.account, entry.image, entry.name) or b"")


def test_a_plugin_s_verdict_reaches_the_account_s_next_jobs(cached: Cached) -> None:
    said(first := cached.start("first"), cached, WORKS)
    cached.end("first", first)
    assert cached.kept() == {VERDICT}
    copy = cached.place(second := cached.start("second")) / VERDICT
    assert (json.loads(copy.read_text()), copy.stat().st_mtime) == (WORKS, UNREAD)
    said(second, cached, FAILS)
    cached.end("second", second)
    assert verdict_of(cached) == FAILS, "the last trial counts"
    other = cached.start("other", "210987654321")
    assert not (cached.place(other) / VERDICT).exists(), "no other account sees it"


def test_a_stopped_job_leaves_its_verdict_and_no_programs(cached: Cached) -> None:
    said(host := cached.start("a"), cached, WORKS)
    cached.compile(host, "step")
    cached.world.engine.jobs.stop(JobKey(ACCOUNT, "us-east-1", "a"))
    cached.end("a", host)
    assert cached.kept() == {VERDICT}


def test_a_failed_job_takes_back_the_verdict_that_it_used(cached: Cached) -> None:
    said(first := cached.start("first"), cached, WORKS)
    cached.end("first", first)
    unused = cached.start("unused")
    cached.end("unused", unused, 1)
    assert cached.kept() == {VERDICT}, "a job that ended before its trial"
    os.utime(cached.place(used := cached.start("used")) / VERDICT)
    cached.end("used", used, 1)
    assert cached.kept() == set()
    said(third := cached.start("third"), cached, WORKS)
    cached.end("third", third, 1)
    assert cached.kept() == set(), "and it leaves none"


@pytest.mark.parametrize(
    "verdict",
    [
        [], {}, {**WORKS, "works": "true"}, {**WORKS, "works": False}, {**WORKS, "reason": "but"},
        {**WORKS, "api": "new"}, {**WORKS, "tried_s": "now"}, {**WORKS, "tried_s": True},
        {**FAILS, "reason": "x" * 5000},
    ],
)  # fmt: skip
def test_a_verdict_of_another_shape_is_not_kept(cached: Cached, verdict: object) -> None:
    said(host := cached.start("a"), cached, verdict)
    cached.end("a", host)
    assert cached.kept() == set()


def test_what_a_verdict_says_is_tamed(cached: Cached) -> None:
    host = cached.start("a")
    said(host, cached, {**FAILS, "reason": "\x1b[31mred", "tried_s": 2**60, "more": 1})
    cached.end("a", host)
    now_s = cached.world.clock.now_ms() // 1000
    assert verdict_of(cached) == {**FAILS, "reason": "\ufffd[31mred", "tried_s": now_s}


def test_links_are_not_followed_and_few_verdicts_are_kept(cached: Cached, tmp_path: Path) -> None:
    host = cached.start("a")
    secret = tmp_path / "secret"
    secret.write_text(json.dumps(WORKS))
    link = f"{'0' * 64}.trial"
    (cached.place(host) / link).symlink_to(secret)
    for number in range(20):
        said(host, cached, WORKS, f"{named(str(number))}.trial")
    cached.end("a", host)
    assert 0 < len(cached.kept()) <= plugin_verdicts.MOST
    assert link not in cached.kept()


# --- Inductor -----------------------------------------------------------------------------------------------------

#: The directory of a kind of processor.
XEON = "0123456789abcdef"


class ByInductor(Cached):
    """Jobs that Inductor compiles on CPUs. Their workers add files to Inductor's directory."""

    def start(self, name: str, account: str = ACCOUNT) -> FakeHost:
        world, key = self.world, JobKey(account, "us-east-1", name)
        asked = {"HyperParameters": GPU["HyperParameters"], "Environment": {"SAGELET_COMPILER": "inductor"}}
        job = world.engine.jobs.create(key, request(name, **asked), {})
        host: FakeHost = until(lambda: world.runtime.hosts.get(f"{job.id}/algo-1"))
        return host

    def directory(self, host: FakeHost) -> Path:
        return self.place(host) / inductor.DIRECTORY / XEON

    def files(self, host: FakeHost) -> dict[str, bytes]:
        root = self.directory(host)
        return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def by_inductor(make_world: Callable[..., World]) -> ByInductor:
    return ByInductor(make_world())


def add(root: Path, name: str, content: bytes = b"code") -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_bytes(content)


def test_inductors_files_are_shared_by_jobs_of_an_account(by_inductor: ByInductor) -> None:
    first = by_inductor.start("first")
    assert first.plan.environment["SAGELET_COMPILE_CACHE"] == f"/opt/ml/{PLACE}"
    root = by_inductor.directory(first)
    add(root, "ab/cab.so", b"\x7fELF")
    add(root, "fxgraph/xy/fxy/0123")
    add(root, "locks/cab.lock")
    add(root, "precompiled_headers/h.gch")
    by_inductor.end("first", first)
    assert not by_inductor.place(first).exists(), "its copies are gone"
    by_inductor.world.clock.turn(60)
    second = by_inductor.start("second")
    copy = by_inductor.directory(second) / "ab/cab.so"
    assert (copy.stat().st_mtime, copy.stat().st_atime) == (UNREAD, UNREAD)
    assert copy.read_bytes() == b"\x7fELF"
    os.utime(copy, (9, UNREAD))  # Not all file systems note reading.
    by_inductor.end("second", second)
    oldest, newest = by_inductor.store.entries()
    assert oldest.name == inductor.name_of(f"{XEON}/fxgraph/xy/fxy/0123"), "the one that the second job did not read"
    assert newest.used_ms > oldest.used_ms
    assert by_inductor.files(by_inductor.start("third")) == {"ab/cab.so": b"\x7fELF", "fxgraph/xy/fxy/0123": b"code"}
    other = by_inductor.start("other", "210987654321")
    assert by_inductor.files(other) == {}


def test_jobs_of_xla_and_of_inductor_get_no_entries_of_each_other(
    make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sagelet_engine.engine.detect_gpus", lambda: (UUID,))
    world = make_world(gpus=GpuPolicy.REQUIRE)
    xla, ours = Cached(world), ByInductor(world)
    host = xla.start("either")
    xla.compile(host, "step")
    add(ours.directory(host), "ab/cab.so")
    xla.end("either", host)
    assert xla.kept() == {named("step"), inductor.name_of(f"{XEON}/ab/cab.so")}, "where its GPUs' trial failed"
    host = ours.start("inductor")
    assert [path.name for path in ours.place(host).iterdir()] == [inductor.DIRECTORY]
    assert list(ours.files(host)) == ["ab/cab.so"]


def test_what_a_hostile_job_leaves_is_not_kept(by_inductor: ByInductor, tmp_path: Path) -> None:
    first = by_inductor.start("first")
    root = by_inductor.directory(first)
    add(root, "ab/cab.so", b"right")
    by_inductor.end("first", first)
    bad = by_inductor.start("bad")
    root = by_inductor.directory(bad)
    add(tmp_path, "secret", b"secret")
    add(root, "ab/cab.so", b"poison")
    add(root, "ab/\nc.so")
    add(root, ".hidden/c.so")
    add(by_inductor.place(bad), f"{inductor.DIRECTORY}/not-a-processor/c.so")
    add(by_inductor.place(bad), inductor.name_of("x"), whole("../../../../escape\npoison"))
    (root / "ab/link.so").symlink_to(tmp_path / "secret")
    (root / "linked").symlink_to(tmp_path)
    os.mkfifo(root / "ab/fifo.so")
    (root / "ab/large.so").open("wb").truncate(inductor.MOST_BYTES + 1)
    by_inductor.end("bad", bad)
    assert by_inductor.kept() == {inductor.name_of(f"{XEON}/ab/cab.so")}
    third = by_inductor.start("third")
    assert by_inductor.files(third) == {"ab/cab.so": b"right"}


def test_an_entry_that_leads_elsewhere_or_is_torn_is_not_laid_out(by_inductor: ByInductor, tmp_path: Path) -> None:
    store = by_inductor.store
    for path in ("../../escape", "/etc/escape", f"{XEON}/../../escape", f"{XEON}/fine"):
        store.add(ACCOUNT, IMAGE, inductor.name_of(path), path.encode() + b"\ncode", 1000)
    torn = store.directory(ACCOUNT, IMAGE) / inductor.name_of(f"{XEON}/torn")
    torn.write_bytes(whole(f"{XEON}/torn\ncode")[:-1])
    inductor.lay_out(store, ACCOUNT, IMAGE, tmp_path / "deep" / "er" / "place")
    assert [
        str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.name in ("escape", "fine", "torn")
    ] == [f"deep/er/place/{XEON}/fine"]


def test_a_failed_job_of_inductors_leaves_nothing(by_inductor: ByInductor) -> None:
    host = by_inductor.start("a")
    add(by_inductor.directory(host), "ab/cab.so")
    by_inductor.end("a", host, 1)
    assert by_inductor.kept() == set()
