"""Whether a search finds the row that answers a question: recall@8 and MRR by ranking and kind of question.

Dialogue: LoCoMo (snap-research/LoCoMo, `data/locomo10.json`, CC BY-NC 4.0), ten long conversations with the
turns that answer each question. Keyword and paraphrase: invented facts hidden in two real coding sessions
(badlogic/pi-mono, `packages/coding-agent/test/fixtures/*.jsonl`, MIT). None of it is part of the project: give
the paths. Even conversations and facts are the half that weights were chosen on, odd ones the half that is
reported; `--weights` prints the choice.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from needles import NEEDLES
from openmem_store import embedding, missing, schema
from openmem_store.localmodel import LocalModel
from openmem_store.reader import ranking, scope, search, source, vectors
from openmem_store.reader.hybrid import Hybrid
from openmem_store.reader.vocabulary import STOP
from openmem_store.rows import Draft, chain
from openmem_store.settings import Settings
from openmem_store.writer import SessionWriter

AT = "2026-01-01T00:00:00Z"
MODEL = "local"
TOP = 8
EVERYTHING = scope.Scope(("user", "assistant", "tool"), None, include_echoes=False)
KINDS = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
"""LoCoMo's categories."""

POOL = ("dialogue", "keyword", "paraphrase")
HALVES = ("tuned on", "held out")


class Question(NamedTuple):
    session: str
    half: int
    pool: str
    kind: str
    text: str
    answers: frozenset[int]
    """`seq` of the rows that answer it."""


class Session(NamedTuple):
    name: str
    threads: list[list[Draft]]
    questions: list[Question]


# --- data ----------------------------------------------------------------------------------------------------


def dialogues(path: Path) -> Iterator[Session]:
    for number, sample in enumerate(json.loads(path.read_text())):
        name = f"dialogue-{number}"
        talk = sample["conversation"]
        seqs: dict[str, int] = {}
        threads: list[list[Draft]] = []
        for session in range(1, 100):
            turns = talk.get(f"session_{session}")
            if not turns:
                continue
            threads.append([])
            for turn in turns:
                caption = f" [{turn['blip_caption']}]" if turn.get("blip_caption") else ""
                threads[-1].append(Draft("user", "text", None, f"{turn['speaker']}: {turn['text']}{caption}"))
                seqs[turn["dia_id"]] = len(seqs) + 1
        questions = []
        for each in sample["qa"]:
            named = [name for entry in each.get("evidence", []) for name in re.findall(r"D\d+:\d+", entry)]
            answers = frozenset(seqs[name] for name in named if name in seqs)
            if answers:
                kind = KINDS[each["category"]]
                questions.append(Question(name, number % 2, "dialogue", kind, each["question"], answers))
        yield Session(name, threads, questions)


def coding(paths: Sequence[Path]) -> Iterator[Session]:
    """Return each coding session with the facts hidden in it, evenly, as messages of the user."""
    for number, path in enumerate(paths):
        drafts = list(_drafts(path))
        apart = len(drafts) // (len(NEEDLES) + 1)
        name = f"coding-{number}"
        questions = []
        for place, needle in reversed(list(enumerate(NEEDLES))):
            drafts.insert((place + 1) * apart, Draft("user", "text", None, needle.fact))
        for place, needle in enumerate(NEEDLES):
            answer = frozenset({(place + 1) * apart + place + 1})
            questions.append(Question(name, place % 2, "keyword", "keyword", needle.keyword, answer))
            questions.append(Question(name, place % 2, "paraphrase", "paraphrase", needle.paraphrase, answer))
        yield Session(name, [drafts], questions)


def _drafts(path: Path) -> Iterator[Draft]:
    for line in path.read_text().splitlines():
        message = json.loads(line).get("message")
        if not message or not isinstance(message.get("content"), list):
            continue
        tool = message["role"] == "toolResult"
        for part in message["content"]:
            match part["type"]:
                case "text" if tool:
                    yield Draft("tool", "tool_result", message.get("toolName"), part["text"])
                case "text":
                    yield Draft("user" if message["role"] == "user" else "assistant", "text", None, part["text"])
                case "toolCall":
                    yield Draft("assistant", "tool_use", part["name"], json.dumps(part["arguments"]))


def stems(text: str) -> set[str]:
    """Return the telling words of a text, roughly by their stems."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    return {re.sub(r"(ing|ed|es|s|e|ly)$", "", word) for word in words if word not in STOP and len(word) > 1}


def check_needles() -> None:
    for needle in NEEDLES:
        shared = stems(needle.fact) & stems(needle.paraphrase)
        if shared:
            sys.exit(f"a paraphrase shares {shared} with its fact: {needle.paraphrase!r}")
        if len(stems(needle.fact) & stems(needle.keyword)) < 2:
            sys.exit(f"a keyword question shares too little with its fact: {needle.keyword!r}")


# --- store ---------------------------------------------------------------------------------------------------


class Remembered:
    """The local model, with every vector kept in a file: a second run asks it nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._model = LocalModel()
        self._known: dict[str, bytes] = {}
        if path.exists():
            self._known = {text: bytes.fromhex(vector) for text, vector in json.loads(path.read_text()).items()}

    def embed(self, texts: Sequence[str], *, timeout: float) -> list[bytes]:
        new = list({text: None for text in texts if text not in self._known})
        for start in range(0, len(new), 32):
            batch = new[start : start + 32]
            self._known.update(zip(batch, self._model.embed(batch, timeout=timeout), strict=True))
        return [self._known[text] for text in texts]

    def save(self) -> None:
        self._path.write_text(json.dumps({text: vector.hex() for text, vector in self._known.items()}))


def build(folder: Path, session: Session, embedder: Remembered) -> Path:
    """Store a session with its vectors, unless it is there."""
    path = folder / "sessions" / f"{session.name}.db"
    if not path.exists():
        writer = SessionWriter(path, version="bench")
        for thread in session.threads:
            writer.sync(chain(thread), dropped=(), cut=None, owned=0, blobs={}, at=AT)
        connection = schema.open_reader(path)
        waiting = missing.rows(connection, MODEL, max_chars=4000, limit=1 << 30)
        connection.close()
        found = embedder.embed([row.head for row in waiting], timeout=1)
        writer.store_vectors(MODEL, dict(zip((row.fingerprint for row in waiting), found, strict=True)))
        writer.close()
    return path


# --- rankings ------------------------------------------------------------------------------------------------

Ranked = Callable[[str, Path], list[int]]


def grep(query: str, path: Path) -> list[int]:
    """The rows with any word, as a person would grep for them: those with more words first, then in their order."""
    words = {word for word in re.findall(r"\w+", query.lower()) if len(word) > 2}
    with source.opened(path) as connection:
        found = [
            (-sum(word in text.lower() for word in words), seq)
            for seq, text in connection.execute("SELECT seq, text FROM messages")
        ]
    return [seq for count, seq in sorted(found) if count][:TOP]


def bm25(query: str, path: Path) -> list[int]:
    phrases = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", query))
    with source.opened(path) as connection:
        found = connection.execute(
            "SELECT rowid FROM messages_fts WHERE messages_fts MATCH ? ORDER BY rank LIMIT ?", (phrases, TOP)
        )
        return [seq for (seq,) in found]


def searched(kept: Hybrid, order: str, mode: str) -> Ranked:
    request = search.Request(EVERYTHING, TOP, ranking=order, mode=mode)  # type: ignore[arg-type]

    def ranked(query: str, path: Path) -> list[int]:
        answer = search.search(query, request, {path.stem: path}, why="bench", hybrid=kept)
        assert answer.embedding_error is None, answer.embedding_error
        return [result.seq for result in answer.results]

    return ranked


def by_vectors(embedder: Remembered) -> Ranked:
    def ranked(query: str, path: Path) -> list[int]:
        (vector,) = embedder.embed([query], timeout=1)
        with source.opened(path) as connection:
            vectors.load(connection)
            rows = scope.Rows(connection, EVERYTHING)
            return list(vectors.nearest(connection, MODEL, vector, EVERYTHING, rows).similarity)[:TOP]

    return ranked


# --- figures -------------------------------------------------------------------------------------------------


class Figure(NamedTuple):
    recall: float
    reciprocal: float


def figure(questions: Iterable[Question], ranked: Ranked, paths: dict[str, Path]) -> dict[Question, Figure]:
    figures: dict[Question, Figure] = {}
    for question in questions:
        found = ranked(question.text, paths[question.session])
        first = next((place for place, seq in enumerate(found, 1) if seq in question.answers), None)
        figures[question] = Figure(
            len(question.answers.intersection(found)) / len(question.answers), 1 / first if first else 0
        )
    return figures


def mean(figures: dict[Question, Figure], chosen: Callable[[Question], bool]) -> Figure | None:
    found = [each for question, each in figures.items() if chosen(question)]
    return Figure(*(sum(column) / len(found) for column in zip(*found, strict=True))) if found else None


def pooled(figures: dict[Question, Figure], half: int) -> Figure:
    """Return the mean over the kinds of the pool, each counting the same."""
    each = [mean(figures, lambda q, pool=pool: (q.pool, q.half) == (pool, half)) for pool in POOL]
    there = [one for one in each if one is not None]
    return Figure(*(sum(column) / len(there) for column in zip(*there, strict=True)))


def show(name: str, cells: Iterable[Figure | None]) -> None:
    print(f"{name:<20}" + "".join(f"{c.recall:6.3f} {c.reciprocal:5.3f} " if c else " " * 13 for c in cells))


def table(
    title: str,
    columns: dict[str, Callable[[dict[Question, Figure]], Figure | None]],
    results: dict[str, dict[Question, Figure]],
) -> None:
    print(f"\n{title}\n{'recall@8 MRR':<20}" + "".join(f"{name:<13}" for name in columns))
    for name, figures in results.items():
        show(name, [column(figures) for column in columns.values()])


def verdict(results: dict[str, dict[Question, Figure]]) -> None:
    def recall(name: str, pool: str) -> float:
        found = mean(results[name], lambda q: (q.pool, q.half) == (pool, 1))
        return found.recall if found else 0.0

    whole = {name: pooled(results[name], 1).recall for name in ("ours", "vectors", "hybrid")}
    parts = max(whole["ours"], whole["vectors"])
    print(
        f"\nhybrid {whole['hybrid']:.3f}, the better part {parts:.3f}: {'met' if whole['hybrid'] > parts else 'MISSED'}"
    )
    for pool in POOL:
        behind = max(recall("ours", pool), recall("vectors", pool)) - recall("hybrid", pool)
        print(f"{pool}: {behind:+.3f} behind the better part, at most 0.04: {'met' if behind <= 0.04 else 'MISSED'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--locomo", type=Path, help="locomo10.json")
    parser.add_argument("--pi", type=Path, nargs="*", default=[], help="coding sessions as JSON lines")
    parser.add_argument("--folder", type=Path, required=True, help="where databases and vectors are kept between runs")
    parser.add_argument(
        "--weights", nargs="*", default=[], help="values of ranking.SIMILARITY and DOUBT to try, as 0.03,1.2"
    )
    given = parser.parse_args()
    check_needles()
    given.folder.mkdir(parents=True, exist_ok=True)
    embedder = Remembered(given.folder / "vectors.json")
    embedding.connect = lambda settings, model: embedder  # type: ignore[assignment]
    sessions = [*(dialogues(given.locomo) if given.locomo else ()), *coding(given.pi)]
    paths = {session.name: build(given.folder, session, embedder) for session in sessions}
    questions = [question for session in sessions for question in session.questions]
    embedder.embed([question.text for question in questions], timeout=1)
    embedder.save()
    kept = Hybrid(Settings(root=given.folder, embedding_model=MODEL), patience_s=60)
    for weights in given.weights:
        ranking.SIMILARITY, ranking.DOUBT = map(float, weights.split(","))
        tuned = [question for question in questions if question.half == 0]
        figures = figure(tuned, searched(kept, "best", "hybrid"), paths)
        show(
            weights,
            [pooled(figures, 0), *(mean(figures, lambda q, pool=pool: q.pool == pool) for pool in POOL)],
        )
    if given.weights:
        return
    rankings = {
        "grep": grep,
        "BM25": bm25,
        "contract, words": searched(kept, "contract", "lexical"),
        "ours": searched(kept, "best", "lexical"),
        "vectors": by_vectors(embedder),
        "contract": searched(kept, "contract", "hybrid"),
        "hybrid": searched(kept, "best", "hybrid"),
    }
    results = {name: figure(questions, ranked, paths) for name, ranked in rankings.items()}
    for half, title in enumerate(HALVES):
        columns = {"pool": lambda figures, half=half: pooled(figures, half)}
        columns |= {
            pool: lambda figures, pool=pool, half=half: mean(figures, lambda q: (q.pool, q.half) == (pool, half))
            for pool in POOL
        }
        table(f"the half {title}", columns, results)
    table(
        "dialogue by kind, both halves",
        {kind: lambda figures, kind=kind: mean(figures, lambda q: q.kind == kind) for kind in KINDS.values()},
        results,
    )
    verdict(results)


if __name__ == "__main__":
    main()
