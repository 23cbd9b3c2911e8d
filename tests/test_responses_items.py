"""Prove of a session with items of every type of the Responses wire what must hold of whatever we forward.

A model's answer may hold calls that the client answers, calls that the provider runs itself, and lists
of a server's tools, in any order; what ends an answer is the client's next item. `OPENMEM_EXAMPLES` as in `test_wires`.
"""

import json
import os
from collections.abc import Iterator
from itertools import count
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.forwarding import WIDE, Forwarded, Proxied, elements
from tests.verdict import refusal
from tests.wires import PIXEL, SEARCH, Json, marks

EXAMPLES = int(os.environ.get("OPENMEM_EXAMPLES", "100"))

PICTURE = f"data:image/png;base64,{PIXEL}"

EXCHANGES: dict[str, tuple[list[Json], list[Json]]] = {
    "a function": (
        [{"type": "function_call", "call_id": "c@", "name": "run", "arguments": '{"a":"⟦@⟧ call"}'}],
        [{"type": "function_call_output", "call_id": "c@", "output": "⟦@000⟧ output" + " x" * 900}],
    ),
    "code": (
        [{"type": "custom_tool_call", "call_id": "c@", "name": "exec", "input": "⟦@⟧ code"}],
        [
            {
                "type": "custom_tool_call_output",
                "call_id": "c@",
                "output": [{"type": "input_text", "text": "⟦@000⟧ out"}],
            }
        ],
    ),
    "a shell": (
        [{"type": "shell_call", "call_id": "c@", "action": {"commands": ["⟦@⟧ ls"]}}],
        [{"type": "shell_call_output", "call_id": "c@", "output": [{"stdout": "⟦@000⟧ a.txt", "stderr": ""}]}],
    ),
    "a patch": (
        [{"type": "apply_patch_call", "call_id": "c@", "operation": {"type": "create_file", "diff": "⟦@⟧ +a"}}],
        [{"type": "apply_patch_call_output", "call_id": "c@", "status": "completed", "output": "⟦@000⟧ done"}],
    ),
    "a screen": (
        [{"type": "computer_call", "call_id": "c@", "action": {"type": "type", "text": "⟦@⟧ typed"}}],
        [
            {
                "type": "computer_call_output",
                "call_id": "c@",
                "output": {"type": "computer_screenshot", "image_url": PICTURE},
            }
        ],
    ),
    "a search for tools": (
        [{"type": "tool_search_call", "call_id": "c@", "execution": "client", "arguments": {"q": "⟦@⟧ which"}}],
        [{"type": "tool_search_output", "call_id": "c@", "execution": "client", "tools": [{"name": SEARCH}]}],
    ),
    "a list of a server's tools": ([{"type": "mcp_list_tools", "id": "mcpl_@", "server_label": "s", "tools": []}], []),
    "a call of the provider's": (
        [{"type": "mcp_call", "id": "mcp_@", "server_label": "s", "name": "q", "arguments": "{}", "output": "⟦@⟧ r"}],
        [],
    ),
    "a search of the web": (
        [{"type": "web_search_call", "id": "ws_@", "action": {"type": "search", "query": "⟦@⟧ rain"}}],
        [],
    ),
    "an approval": (
        [{"type": "mcp_approval_request", "id": "mcpr_@", "server_label": "s", "name": "q", "arguments": "{}"}],
        [{"type": "mcp_approval_response", "approval_request_id": "mcpr_@", "approve": True, "reason": "⟦@⟧ do"}],
    ),
}
"""By what it is: the model's items, and the client's answer to them, empty where there is none; `@` is a number."""

Turn = list[tuple[str, bool]]
"""The exchanges of a turn, and whether signed reasoning, packed by a gateway, stands before each."""


def _thought(number: int) -> Json:
    block = {"type": "thinking", "thinking": f"⟦{number}⟧ thought", "signature": f"s{number}"}
    summary = [{"type": "summary_text", "text": block["thinking"]}]
    return {"type": "reasoning", "summary": summary, "encrypted_content": json.dumps([block])}


def _numbered(items: list[Json], number: int) -> list[Json]:
    return json.loads(json.dumps(items, ensure_ascii=False).replace("@", str(number)))


def _histories(turns: list[Turn]) -> Iterator[list[Json]]:
    """Yield the input of each request of a session."""
    numbers = count(1)
    items: list[Json] = []
    for turn in turns:
        items.append({"role": "user", "content": f"⟦{next(numbers)}⟧ go on"})
        yield list(items)
        for name, thinks in turn:
            model, client = EXCHANGES[name]
            items += [_thought(next(numbers))] if thinks else []
            number = next(numbers)
            items += _numbered(model, number)
            if client:
                items += _numbered(client, number)
                yield list(items)
        said = [{"type": "output_text", "text": f"⟦{next(numbers)}⟧ so"}]
        items.append({"type": "message", "role": "assistant", "content": said})


def _check(made: Forwarded, before: Forwarded | None) -> None:
    assert refusal("responses", made.outbound) is None
    shown = made.outbound["input"]
    if before is not None and made.decided.trim is None:
        assert shown[: len(before.outbound["input"])] == before.outbound["input"]
    inbound, outbound = elements("responses", made.came), elements("responses", made.left)
    rendering = made.decided.rendering
    touched = {*rendering.compressed, rendering.noted}
    assert len(outbound) == len(rendering.kept)
    for index, element in zip(rendering.kept, outbound, strict=True):
        assert element == inbound[index] or index in touched
    spoken = [
        {key: value for key, value in item.items() if key != "encrypted_content"} for item in made.inbound["input"]
    ]
    assert set(marks(spoken)) == {mark for row in made.decided.rows for mark in marks(row.text)}


_TURNS = st.lists(
    st.lists(st.tuples(st.sampled_from(sorted(EXCHANGES)), st.booleans()), max_size=6), min_size=1, max_size=4
)


@settings(max_examples=EXAMPLES, deadline=None)
@given(_TURNS, st.sets(st.integers(0, 20), max_size=3), st.sampled_from([0, 500]), st.sampled_from([300, 1_000_000]))
def test_items_of_every_type_are_accepted_extended_and_stored(
    turns: list[Turn], forced: set[int], compress: int, threshold: int
) -> None:
    policy: Any = msgspec.structs.replace(WIDE, compress_tokens=compress, trim_tokens=threshold)
    proxied = Proxied("responses", policy)
    before = None
    for number, items in enumerate(_histories(turns)):
        tools = [{"type": "function", "name": name, "parameters": {}} for name in ("run", SEARCH)]
        body = json.dumps({"model": "m-1", "input": items, "tools": tools, "store": False}, ensure_ascii=False)
        made = proxied.send(body.encode(), force=number in forced)
        _check(made, before)
        before = made
