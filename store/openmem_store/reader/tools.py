"""Own the tools: what each takes, what it calls, and in which thread or process the work is done.

Modules that only one tool needs are imported when it is first called, so that a host gets its list
of tools sooner.
"""

import time
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from openmem_store import blobs, sid
from openmem_store.layout import Layout
from openmem_store.reader import answers, databases, texts, threads
from openmem_store.reader.answers import RefusedError
from openmem_store.reader.scope import Scope
from openmem_store.settings import Settings

if TYPE_CHECKING:
    from openmem_store.reader import child, hybrid, sessions, spares

ROLES = ("user", "assistant", "tool")
DEFAULT_ROLES = ("user", "tool")
DEFAULT_RESULTS = 8
MOST_RESULTS = 50
MOST_CONTEXT = 5

Role = Literal["user", "assistant", "tool"]


def _given(default: object) -> BeforeValidator:
    """Take null as left out: some hosts send it for every optional argument."""
    return BeforeValidator(lambda value: default if value is None else value)  # pyright: ignore[reportUnknownLambdaType]


class Tools:
    """The four tools over one store, for an agent that works in `cwd`."""

    def __init__(self, layout: Layout, cwd: Path, settings: Settings | None = None, *, keeps: bool = False) -> None:
        """`settings` are those of the embedding; None for the defaults.

        `keeps`: between two calls files stay open and a child waits for its job, until `close`.
        """
        self._layout = layout
        self._cwd = cwd
        self._settings = settings or Settings(root=layout.root)
        self._keeps = keeps

    def offered(self) -> Sequence[Callable[..., Any]]:
        """Return the tools, in the order a model should think of them."""
        return (self.smart_compact_search, self.smart_compact_sql, self.smart_compact_get, self.context_status)

    async def smart_compact_search(
        self,
        query: Annotated[str, Field(description=texts.QUERY), _given("")] = "",
        pattern: Annotated[str, Field(description=texts.PATTERN), _given("")] = "",
        role: Annotated[
            Role | Literal["all"] | list[Role], Field(description=texts.ROLE), _given(list(DEFAULT_ROLES))
        ] = list(DEFAULT_ROLES),  # noqa: B006, never changed
        in_context: Annotated[bool | None, Field(description=texts.IN_CONTEXT)] = None,
        context: Annotated[int, Field(description=texts.CONTEXT, ge=0, le=MOST_CONTEXT), _given(0)] = 0,
        session_id: Annotated[str | None, Field(description=texts.SESSION_ID)] = None,
        limit: Annotated[
            int, Field(description=texts.LIMIT, ge=1, le=MOST_RESULTS), _given(DEFAULT_RESULTS)
        ] = DEFAULT_RESULTS,
        ranking: Annotated[Literal["best", "contract"], Field(description=texts.RANKING), _given("best")] = "best",
        mode: Annotated[Literal["hybrid", "lexical"] | None, Field(description=texts.MODE)] = None,
        include_echoes: Annotated[bool, Field(description=texts.INCLUDE_ECHOES), _given(False)] = False,
    ) -> str:
        from openmem_store.reader import pattern as patterns
        from openmem_store.reader import search, standin

        if query.strip() and pattern:
            raise RefusedError("query and pattern: give one of them; pattern counts exactly, query ranks by relevance")
        choice = await threads.run(self._choose, session_id)
        files = {each: self._layout.database(each) for each in choice.sids}
        request = search.Request(Scope(_roles(role), in_context, include_echoes), limit, context, ranking, mode)
        if pattern:
            ask = partial(patterns.search, pattern, request, why=choice.scope, do=self._do)
        else:
            find = partial(search.search, query, request, why=choice.scope)
            ask = partial(threads.run, partial(find, hybrid=self._hybrid, opened=self._opened))
        return answers.encode(await standin.search(files, ask))

    async def smart_compact_sql(
        self,
        session_id: Annotated[str, Field(description=texts.SQL_SESSION_ID)],
        sql: Annotated[str, Field(description=texts.STATEMENT)],
    ) -> str:
        from openmem_store.reader import sql as statements

        choice = await threads.run(self._choose, session_id)
        database = self._layout.database(choice.sids[0])
        return answers.encode(await statements.run(database, sql, do=self._do))

    async def smart_compact_get(
        self,
        id: Annotated[str, Field(description=texts.ID), _given("")] = "",
        session_id: Annotated[str | None, Field(description=texts.SQL_SESSION_ID)] = None,
        seq: Annotated[int | None, Field(description=texts.SEQ, ge=1)] = None,
        offset: Annotated[int, Field(description=texts.OFFSET, ge=0), _given(0)] = 0,
        limit: Annotated[
            int, Field(description=texts.PAGE_LIMIT, ge=1, le=answers.MOST_WEIGHT), _given(answers.PAGE)
        ] = answers.PAGE,
    ) -> str:
        from openmem_store.reader import pages

        if bool(id) == (seq is not None):
            raise RefusedError("id or seq: give the id from a marker, or session_id and seq of a row, not both")
        text = await threads.run(self._blob, id) if id else await threads.run(self._row, session_id, seq)
        return answers.encode(pages.cut(text, offset, limit))

    async def context_status(self) -> str:
        from openmem_store.reader import status

        return answers.encode(await threads.run(partial(status.summary, self._layout, now=time.time())))

    def close(self) -> None:
        """Let go of what is kept for the next call."""
        for kept in ("_spares", "_sessions"):
            if kept in self.__dict__:
                self.__dict__[kept].close()

    @property
    def _do(self) -> "child.Run":
        from openmem_store.reader import child

        return self._spares.run if self._keeps else child.run

    @property
    def _opened(self) -> "sessions.Opened":
        from openmem_store.reader import sessions

        return self._sessions.opened if self._keeps else sessions.once

    @cached_property
    def _spares(self) -> "spares.Spares":
        from openmem_store.reader import spares

        return spares.Spares()

    @cached_property
    def _sessions(self) -> "sessions.Sessions":
        from openmem_store.reader import sessions

        return sessions.Sessions(self._layout.sessions)

    @cached_property
    def _hybrid(self) -> "hybrid.Hybrid":
        from openmem_store.reader import hybrid

        return hybrid.Hybrid(self._settings)

    def _choose(self, session_id: str | None) -> databases.Choice:
        return databases.choose(self._layout, _checked(session_id), cwd=self._cwd)

    def _blob(self, blob_id: str) -> str:
        text = blobs.read(self._layout, blob_id.strip().lower())
        if text is None:
            raise RefusedError("id: no stored text has this id; copy the 16 hex digits from the marker")
        return text

    def _row(self, session_id: str | None, seq: int) -> str:
        from openmem_store.reader import pages, results

        if session_id is None:
            raise RefusedError("session_id: give it with seq, as the search result names it")
        choice = self._choose(session_id)
        try:
            return pages.row(self._layout.database(choice.sids[0]), seq)
        except results.UNREADABLE as error:
            raise RefusedError(f"session_id: this session is {results.unreadable(error)}") from error


def _checked(session_id: str | None) -> str | None:
    if session_id is None:
        return None
    try:
        return sid.checked(session_id)
    except ValueError as error:
        raise RefusedError(str(error)) from error


def _roles(role: str | list[Role]) -> tuple[str, ...]:
    if isinstance(role, str):
        return ROLES if role == "all" else (role,)
    return tuple(role) or ROLES
