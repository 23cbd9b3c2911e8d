"""Own the events of a session: what one row of the `events` table says."""

import msgspec


class Trim(msgspec.Struct, frozen=True, tag="trim"):
    """A new cut, or a gap that moved."""

    tokens_before: int
    """Calibrated estimate of the request under the view it had, in tokens."""
    tokens_after: int
    dropped: int
    """Wire messages this trim newly removed."""


class FailOpen(msgspec.Struct, frozen=True, tag="fail_open"):
    """A rewrite raised: the view committed before went out, or the request as it came where there was none."""

    location: str
    """`<file>:<line>`, file name only."""
    error: str
    """Exception type. Never message content."""


class Heal(msgspec.Struct, frozen=True, tag="heal"):
    """A refusal that what we changed may have caused; the thread was changed and the client asked again."""

    location: str
    """The remedy: `valve`, `strip`, `restore`, `trim` or `withdraw`."""
    error: str
    """The kind of refusal: `binding`, `valve`, `signature`, `missing`, `orphan`, `placement` or `long`."""


class Usage(msgspec.Struct, frozen=True, tag="usage"):
    """One model call, as the provider reported it. A count it did not report is None, never 0."""

    model: str | None
    thread_root: str | None
    """Fingerprint of the request's first row; None for a request that stores none."""
    trimmed: int
    """0 the request went up whole, 1 it carried an earlier cut, 2 it made a new one."""
    input_tokens: int | None
    """Excludes cache reads and writes; the prompt is the sum of the three."""
    cache_read_tokens: int | None
    cache_creation_tokens: int | None
    output_tokens: int | None
    breakpoints: int | None
    """`cache_control` markers of the incoming request; None on wires that have none."""
    breakpoint_at: str | None
    """Their places in prefix order: `tools`, `system`, `m-<k>`, comma-separated."""


Event = Trim | FailOpen | Heal | Usage
