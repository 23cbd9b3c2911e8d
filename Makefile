# The gate, in parts. `make` runs all of it, as .ci/run does.
.PHONY: all style types imports tests pins settings compatibility try

all: style types imports tests

style:
	./run.sh dev ruff check .
	./run.sh dev ruff format --check .

types:
	./run.sh dev pyright

imports:
	./run.sh dev lint-imports

tests:
	./run.sh test

# After a change of dependencies in pyproject.toml. The lock itself names registry hosts and is not committed.
EXPORT = uv export -q --no-hashes --no-header --no-emit-project --format requirements.txt
pins:
	$(EXPORT) --no-dev -o requirements.lock
	$(EXPORT) --no-dev --extra local-embeddings -o requirements-local-embeddings.lock
	$(EXPORT) --only-group dev -o requirements-dev.lock

# The README's table of settings, after a change of store/openmem_store/settings.py.
settings:
	./run.sh dev python -m openmem_store.manual README.md

# The page docs/compatibility.md, from what the agent tests find.
FOUND = build/findings
compatibility:
	rm -rf $(FOUND) && mkdir -p $(FOUND)
	OPENMEM_TEST_RESULTS=$(CURDIR)/$(FOUND) ./run.sh test tests/test_claude_code.py tests/test_codex.py tests/test_opencode.py
	./run.sh dev python -m fixtures.clients table $(FOUND)

# What changed in the requests of another version: make try CLIENT=codex VERSION=latest
VERSION = latest
try:
	./run.sh dev python -m fixtures.clients try $(CLIENT) $(VERSION)
