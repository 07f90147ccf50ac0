"""The command line: parse, call, print. Imports stay light until a command runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None, help="Which host broke the job, and what to do. Reads logs; runs nothing.")


@app.command()
def now(paths: Annotated[list[str], typer.Argument(help="files, folders, globs, archives, or - for standard input")],
        job: Annotated[str | None, typer.Option()] = None,
        format: Annotated[str, typer.Option()] = "text") -> None:
    import json
    from triage.pipeline import refresh, load, judge
    from triage import ingest as I, sources
    from triage.rulebook import load as load_rules
    from triage.store import Store
    from triage.answers import Question, answer
    book = load_rules()
    families = {c: r.family for c, r in book.codes.items()}
    with Store() as store:
        found = sources.find(paths)
        rep = I.ingest(store, found, I.Options(families))
        refresh(store, book)
        analysis = judge(load(store, book), book)
        rejects = store.rows("SELECT count(*) AS n FROM rejects")[0]["n"]
        print(json.dumps(answer(analysis, book, Question(job=job), rejects, not rep.sources), indent=1))


@app.command()
def ingest(paths: list[str], db: str = "triage.duckdb", format: str = "text") -> None:
    import json
    from triage.pipeline import refresh
    from triage import ingest as I, sources
    from triage.rulebook import load as load_rules
    from triage.store import Store
    book = load_rules()
    families = {c: r.family for c, r in book.codes.items()}
    with Store(db) as store:
        rep = I.ingest(store, sources.find(paths), I.Options(families))
        refresh(store, book)
        print(json.dumps({"sources": [], "events": 0}))


@app.command()
def sql(query: str, db: str = "triage.duckdb", format: str = "text") -> None:
    import json
    from triage.store import Store
    with Store(db, write=False) as store:
        print(json.dumps(store.user_query(query), default=str))


def app_main() -> None:
    app()


if __name__ == "__main__":
    app_main()
