"""The forms of a completion."""

import json

import pytest

from fixtures.provider.chat import stream
from fixtures.provider.chat.compose import Answer

CALLS = [
    {"id": "call_1", "type": "function", "function": {"name": "Read", "arguments": '{"path":"' + "é" * 90 + '"}'}},
    {"id": "call_2", "type": "custom", "custom": {"name": "Note", "input": "plain " * 30}},
]
PLAIN = {"role": "assistant", "content": "Reading. " * 20, "refusal": None}
SIGNED = [
    {"type": "thinking", "thinking": "a thought " * 10, "signature": "sig"},
    {"type": "redacted_thinking", "data": "sig"},
    {"type": "thinking", "thinking": "", "signature": "gis"},
]
MESSAGES = {
    "text": PLAIN,
    "nothing": {**PLAIN, "content": None, "tool_calls": CALLS},
    "calls": {**PLAIN, "tool_calls": CALLS},
    "legacy": {**PLAIN, "function_call": {"name": "Read", "arguments": '{"a":"' + "x" * 90 + '"}'}},
    "reasoning": {**PLAIN, "reasoning_content": "a thought " * 10},
    "signed": {
        "role": "assistant",
        "content": "Reading.",
        "reasoning_content": "a thought " * 10,
        "thinking_blocks": SIGNED,
    },
}
USAGE = {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}


def completion(name):
    """Return a finished completion."""
    answer = Answer(MESSAGES[name], "tool_calls")
    return stream.Completion(answer=answer, id="chatcmpl-1", created=7, model="gpt-5.6", usage=USAGE)


def rebuilt(chunks):
    """Put a message together from its chunks, as a client does."""
    message, blocks = {}, []
    for chunk in chunks:
        for choice in chunk["choices"]:
            for key, value in choice["delta"].items():
                if key == "tool_calls":
                    for part in value:
                        calls = message.setdefault("tool_calls", [])
                        if part["index"] == len(calls):
                            calls.append({k: v for k, v in part.items() if k != "index"})
                        else:
                            (kind,) = set(part) - {"index"}
                            (field,) = part[kind]
                            calls[part["index"]][kind][field] += part[kind][field]
                elif key == "function_call":
                    call = message.setdefault("function_call", {"name": "", "arguments": ""})
                    call["name"] += value.get("name", "")
                    call["arguments"] += value["arguments"]
                elif key == "thinking_blocks":
                    blocks += value
                elif isinstance(value, str):
                    message[key] = (message.get(key) or "") + value
                else:
                    message.setdefault(key, value)
    if blocks:
        message["thinking_blocks"] = joined(blocks)
    return message


def joined(parts):
    """Put thinking blocks together: a signature ends one."""
    blocks, text = [], ""
    for part in parts:
        if part["type"] == "redacted_thinking":
            blocks.append(part)
            continue
        text += part["thinking"]
        if part["signature"]:
            blocks.append({"type": "thinking", "thinking": text, "signature": part["signature"]})
            text = ""
    return blocks


@pytest.mark.parametrize("name", MESSAGES)
def test_chunks_carry_the_message(name):
    found = list(stream.chunks(completion(name), include_usage=False))
    assert rebuilt(found) == MESSAGES[name]
    assert {chunk["object"] for chunk in found} == {"chat.completion.chunk"}
    assert {chunk["id"] for chunk in found} == {"chatcmpl-1"}
    assert [chunk["choices"][0]["finish_reason"] for chunk in found] == [None] * (len(found) - 1) + ["tool_calls"]
    assert all("usage" not in chunk for chunk in found)


def test_usage_comes_in_a_chunk_of_its_own_after_nulls():
    found = list(stream.chunks(completion("text"), include_usage=True))
    assert [chunk["usage"] for chunk in found[:-1]] == [None] * (len(found) - 1)
    assert (found[-1]["choices"], found[-1]["usage"]) == ([], USAGE)


def test_the_whole_object_has_one_choice_and_its_usage():
    whole = stream.whole(completion("calls"))
    assert (whole["object"], whole["created"], whole["model"]) == ("chat.completion", 7, "gpt-5.6")
    assert whole["choices"] == [
        {"index": 0, "message": MESSAGES["calls"], "logprobs": None, "finish_reason": "tool_calls"}
    ]
    assert whole["usage"] == USAGE


def test_a_stream_is_lines_of_data_and_an_end_mark():
    events = list(stream.events(completion("calls"), include_usage=False))
    assert events[-1] == b"data: [DONE]\n\n"
    assert all(event.startswith(b"data: {") and event.endswith(b"}\n\n") for event in events[:-1])
    assert json.loads(events[0][6:])["choices"][0]["delta"]["role"] == "assistant"
    assert stream.encode({"x": "é"}) == 'data: {"x":"é"}\n\n'.encode()
