"""The database file: who may open it, what a stranger's query may do, what a table takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import polars as pl
import pytest

from tests.engine.rows import when
from triage import store as store_module
from triage.schema import TABLES, VERSION
from triage.store import Store, StoreFault, frame_of

BURST = {"burst_id": "b1", "host": "n1", "code": "xid.79", "first": when("10:00:00"), "count": 3}


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = str(tmp_path / "t.duckdb")
    with Store(file) as store:
        store.add("bursts", [BURST])
    return file


def test_rows_come_back_as_they_went_in(path: str) -> None:
    with Store(path, write=False) as store:
        (row,) = store.frame("bursts").to_dicts()
    assert {k: row[k] for k in BURST} == BURST


def test_a_second_writer_gets_one_line(path: str) -> None:
    holder = "import sys, duckdb\nc = duckdb.connect(sys.argv[1])\nprint('held', flush=True)\nsys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", holder, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "held"
        for write in (True, False):
            with pytest.raises(StoreFault, match="in use by another process") as raised:
                Store(path, write=write)
            assert "\n" not in str(raised.value)
        process.communicate()


@pytest.mark.parametrize("write", [True, False])
def test_a_file_that_is_no_database(tmp_path: Path, write: bool) -> None:
    file = tmp_path / "t.duckdb"
    file.write_bytes(b"Jun  1 10:00:00 n1 kernel: hello\n" * 200)
    with pytest.raises(StoreFault, match="not a triage database") as raised:
        Store(str(file), write=write)
    assert "\n" not in str(raised.value)


def test_a_database_of_something_else(tmp_path: Path) -> None:
    file = str(tmp_path / "t.duckdb")
    with duckdb.connect(file) as other:
        other.execute("CREATE TABLE meta (x INT)")
    for write, words in ((True, "a database of something else"), (False, "not a triage database")):
        with pytest.raises(StoreFault, match=words):
            Store(file, write=write)
    with duckdb.connect(file) as other:
        assert other.execute("SHOW TABLES").fetchall() == [("meta",)]


def test_a_database_of_another_version(path: str) -> None:
    with Store(path) as store:
        store.set_meta("schema", "99")
    with pytest.raises(StoreFault, match="schema version 99"):
        Store(path)


@pytest.mark.parametrize(("name", "words"), [("none.duckdb", "no such database"), ("no/such/folder/t.duckdb", "no such database")])
def test_a_missing_database(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(StoreFault, match=words):
        Store(str(tmp_path / name), write=False)


def test_a_database_in_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(StoreFault, match="its folder does not exist"):
        Store(str(tmp_path / "no" / "t.duckdb"))


def test_a_transaction_that_fails_leaves_nothing(path: str) -> None:
    with Store(path) as store:
        with pytest.raises(RuntimeError), store.transaction():
            store.add("bursts", [{**BURST, "burst_id": "b2"}])
            raise RuntimeError
        assert store.frame("bursts").height == 1


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM bursts",
        "DROP TABLE bursts",
        "INSERT INTO meta VALUES ('a', 'b')",
        "UPDATE bursts SET host = 'x'",
        "CREATE TABLE x AS SELECT 1",
        "COPY bursts TO '{folder}/out.csv'",
        "EXPORT DATABASE '{folder}/out'",
        "ATTACH '{folder}/other.duckdb'",
        "SET enable_external_access=true",
        "RESET lock_configuration",
        "PRAGMA database_list",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SELECT 1; SELECT 2",
        "SELECT 1; DROP TABLE bursts",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM glob('/*')",
        "SELECT getenv('HOME')",
        "SELECT nothing FROM nowhere",
        "SELEC 1",
        "",
        ";",
        "\x00",
    ],
)
def test_a_strangers_query_changes_and_reads_nothing_else(path: str, tmp_path: Path, query: str) -> None:
    with Store(path, write=False) as store, pytest.raises(StoreFault) as raised:
        store.user_query(query.replace("{folder}", str(tmp_path)))
    assert str(raised.value).startswith("sql: ")
    assert "\n" not in str(raised.value)
    assert [p.name for p in tmp_path.iterdir()] == ["t.duckdb"]


def test_a_query_with_a_semicolon_at_its_end(path: str) -> None:
    with Store(path, write=False) as store:
        assert store.user_query("SELECT host, count FROM bursts;") == [{"host": "n1", "count": 3}]


def test_a_frame_with_other_columns_is_refused(path: str) -> None:
    with Store(path) as store:
        with pytest.raises(TypeError, match="bursts: the stage gave other columns or types"):
            store.replace("bursts", pl.DataFrame({"host": ["n1"]}))
        with pytest.raises(KeyError, match="no column"):
            store.add("bursts", [{"hots": "n1"}])


@pytest.mark.parametrize("name", sorted(TABLES))
def test_every_table_makes_an_empty_frame_of_its_types(name: str) -> None:
    assert dict(frame_of(TABLES[name], []).frame.schema) == TABLES[name].dtypes()


def test_what_was_cut_while_it_was_made_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "t.duckdb")
    monkeypatch.setattr(store_module, "VIEWS", ("no such statement",))
    with pytest.raises(duckdb.Error):
        Store(path)
    monkeypatch.undo()
    with Store(path) as store:
        assert store.meta("schema") == str(VERSION)


@pytest.mark.parametrize("write", [True, False])
def test_no_progress_bar_gets_into_the_output(tmp_path: Path, write: bool) -> None:
    path = str(tmp_path / "t.duckdb")
    with Store(path):
        pass
    with Store(path, write=write) as store:
        assert store.user_query("SELECT current_setting('enable_progress_bar') AS bar") == [{"bar": False}]


def test_without_a_folder_for_temporary_files_it_works_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def sealed(**_: object) -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(store_module, "mkdtemp", sealed)
    with Store() as opened, opened.sorting(10):
        opened.set_meta("built", "x")
        assert opened.meta("built") == "x"
