"""Own `demo`: the main job shown without key or network, told in plain words, each claim checked.

Every number comes from the provider's record or the session's database; a claim that does not hold ends the
demo with exit code 1 and its name.
"""

import itertools
import json
import os
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from openmem_addon.commands import checkout

if TYPE_CHECKING:
    from openmem_addon.commands.play import Played


HELP = """\
usage: ./run.sh demo

Plays one session through the real proxy, with a scripted agent and a strict fake provider, and checks what it claims
against the provider's record and the database. No key, no network, half a minute. Exit code 1 when a claim does not
hold."""


class Trim(msgspec.Struct, frozen=True):
    """One row of the events table, and the request it happened in."""

    request: int
    before: int
    """Tokens, as are those after."""
    after: int
    dropped: int


class Facts(msgspec.Struct, frozen=True):
    """What the provider's record and the database say."""

    requests: int
    refusals: tuple[str, ...]
    sent: int
    """Messages in the agent's last request."""
    rows: int
    lost: int
    """Texts the agent sent that the store does not hold."""
    trims: tuple[Trim, ...]
    repeated: int
    """Requests that began with the whole request before them."""
    broken: tuple[int, ...]
    """Requests that did not, although no trim is recorded for them."""
    cached: float
    """Share of the prompt tokens between trims that came from the provider's cache."""
    threshold: int
    largest: int
    """Tokens of the largest prompt, by the provider's own count."""
    pointer: str | None
    question: str
    visible: bool
    """Whether the answer still stood in the prompt that asked the question."""
    hit: dict[str, Any] | None
    """The first result of the search."""
    search: str
    """The arguments the model gave it."""
    answer: str
    key: str


def main(name: str, words: Sequence[str]) -> int:
    """Play the demo. Returns 1 when a claim does not hold, 2 for words it does not take."""
    if list(words) in (["--help"], ["-h"]):
        print(HELP)
        return 0
    if words:
        print(f"openmem-context: {name} takes no arguments", file=sys.stderr)
        return 2
    if not (checkout.ROOT / "fixtures").is_dir():
        print("openmem-context: the demo runs from a checkout, start it with ./run.sh demo", file=sys.stderr)
        return 1
    sys.path.append(str(checkout.ROOT))
    from openmem_addon.commands import play

    begun = time.monotonic()
    print("A scripted agent and a strict fake provider; between them the real proxy, beside them the real search.")
    print("Nothing leaves this machine. It takes some seconds.\n", flush=True)
    with tempfile.TemporaryDirectory(prefix="openmem-demo-") as folder:
        facts = gather(play.run(Path(folder), os.environ), threshold=play.THRESHOLD)
    for line in story(facts):
        print(line)
    failed = [claim for claim, holds in claims(facts).items() if not holds]
    for claim in failed:
        print(f"openmem-context: this does not hold: {claim}", file=sys.stderr)
    if not failed:
        print(f"\nChecked against the provider's record and the database, in {time.monotonic() - begun:.1f} s.")
    return 1 if failed else 0


def gather(played: "Played", *, threshold: int) -> Facts:
    """Read the facts out of what a session left behind."""
    from fixtures.provider import canonical

    flags = [flag for (flag,) in played.rows("SELECT trimmed FROM events WHERE kind = 'usage' ORDER BY id")]
    views = [
        [canonical.without_markers(exchange.body["system"]), canonical.offered(exchange.body)]
        + [canonical.message(message, thinking=True) for message in exchange.body["messages"]]
        for exchange in played.exchanges
    ]
    extends = [after[: len(before)] == before for before, after in itertools.pairwise(views)]
    cut = [number for number, flag in enumerate(flags) if flag == 2]
    between = [exchange for number, exchange in enumerate(played.exchanges) if number and number not in cut]
    events = played.rows("SELECT tokens_before, tokens_after, dropped FROM events WHERE kind = 'trim' ORDER BY id")
    stored = {text for (text,) in played.rows("SELECT text FROM messages")}
    asking = next(
        number for number, exchange in enumerate(played.exchanges) if played.question in json.dumps(exchange.body)
    )
    call = played.exchanges[asking].content[-1]
    results = played.found.get("results") or [None]
    return Facts(
        requests=len(played.exchanges),
        refusals=tuple(str(exchange.error) for exchange in played.exchanges if exchange.status != 200),
        sent=len(played.sent) - 1,
        rows=played.rows("SELECT count(*) FROM messages")[0][0],
        lost=sum(text not in stored for message in played.sent[:-1] for text in _texts(message)),
        trims=tuple(Trim(number + 1, *event) for number, event in zip(cut, events, strict=True)),
        repeated=sum(extends),
        broken=tuple(number + 2 for number, extended in enumerate(extends) if not extended and number + 1 not in cut),
        cached=sum(exchange.usage["cache_read_input_tokens"] for exchange in between) / sum(map(_prompt, between)),
        threshold=threshold,
        largest=max(map(_prompt, played.exchanges)),
        pointer=_pointer(played.exchanges[asking].body),
        question=played.question,
        visible=played.key in json.dumps(played.exchanges[asking].body),
        hit=results[0],
        search=", ".join(f"{name}={json.dumps(value)}" for name, value in call.get("input", {}).items()),
        answer=played.answer,
        key=played.key,
    )


def _prompt(exchange: Any) -> int:
    counted = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return sum(exchange.usage[name] for name in counted)


def _texts(message: dict[str, Any]) -> Iterator[str]:
    """Return the texts of a message as the store has them: tool calls have a form of their own and are left out."""
    content = message["content"]
    if isinstance(content, str):
        yield content
        return
    for block in content:
        if block["type"] in ("text", "tool_result"):
            yield block.get("text", block.get("content"))


def _pointer(body: dict[str, Any]) -> str | None:
    for message in body["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else []:
            if str(block.get("text", "")).startswith("[openmem: continuing session"):
                return block["text"]
    return None


def claims(facts: Facts) -> dict[str, bool]:
    """Return each claim the demo makes and whether it holds."""
    hit = facts.hit or {}
    return {
        "the provider refused no request": not facts.refusals,
        "every text the agent sent is in the store": facts.lost == 0,
        "the session outgrew the threshold and was trimmed": bool(facts.trims),
        "each trim made the prompt smaller": all(trim.after < trim.before and trim.dropped > 0 for trim in facts.trims),
        "no prompt was larger than the threshold": facts.largest <= facts.threshold,
        "each prompt began with the one before it, but at a trim": not facts.broken
        and facts.repeated + len(facts.trims) == facts.requests - 1,
        "the model was told what is missing": facts.pointer is not None,
        "the answer had left the prompt": not facts.visible,
        "the search found it among what had left": facts.key in json.dumps(hit) and hit.get("in_context") is False,
        "the model answered with what the search returned": facts.key in facts.answer,
    }


def story(facts: Facts) -> Iterator[str]:
    """Tell the facts in plain words."""
    hit = facts.hit or {}
    yield f"1. The agent made {facts.requests} requests in one session. Its last one held {facts.sent} messages;"
    yield f"   the store holds all of them, as {facts.rows} rows, one for each part of a message."
    yield f"\n2. The proxy trims at {facts.threshold:,} tokens here; the default is 120,000. It trimmed:"
    for trim in facts.trims:
        yield (
            f"   request {trim.request}: {trim.before:,} tokens before, {trim.after:,} after, "
            f"{trim.dropped} messages dropped"
        )
    yield f"   The largest prompt the provider counted had {facts.largest:,} tokens."
    yield "\n3. In their place the model reads:"
    yield _quoted(facts.pointer or "(nothing)")
    yield "   (It is written once for a cut and then stays as it is, so that the prompt before it stays too.)"
    yield f"\n4. Of the {facts.requests - 1} prompts after the first, {facts.repeated} began with the whole prompt"
    yield f"   before them, unchanged but for the cache markers; the other {len(facts.trims)} are the trims."
    yield f"   So {facts.cached:.0%} of the tokens between trims came from the provider's cache."
    yield f"\n5. The user asks: {facts.question}"
    yield (
        "   The page that says so had left the prompt."
        if not facts.visible
        else "   The answer is still in the prompt."
    )
    yield f"   The model calls smart_compact_search({facts.search})"
    yield f"   and gets row {hit.get('seq')}:"
    yield _quoted(str(hit.get("excerpt", "(nothing)")))
    yield f"   It answers: {facts.answer}"


def _quoted(text: str) -> str:
    lines = (textwrap.fill(line, 108) for line in text.splitlines())
    return textwrap.indent("\n".join(lines), "   | ")
