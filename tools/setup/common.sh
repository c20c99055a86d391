# What the scripts of tools/ share. Sourced by them, never run:
#   source "$(dirname "${BASH_SOURCE[0]}")/setup/common.sh"
# Gives the repository's root as $root and goes there; messages, steps with their times, and one
# clear line on the error stream when a command fails.
# shellcheck shell=bash
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root"
program=tools/$(basename "$0")
log_folder=$root/build/logs

say() { printf '%s\n' "$*"; }

# fail MESSAGE: the one clear line.
fail() {
  printf '%s: %s\n' "$program" "$*" >&2
  exit 1
}

# A failure that nobody handled still ends with a line that names it.
trap 'fail "line $LINENO: \"$BASH_COMMAND\" failed"' ERR

# begin_step TITLE: announces a step; end_step [RESULT] closes it with the seconds it took.
step_number=0
step_started=0
begin_step() {
  step_number=$((step_number + 1))
  step_started=$SECONDS
  printf '\n[%d/%d] %s\n' "$step_number" "${step_total:-0}" "$*"
}
end_step() { say "      ${1:-done} ($((SECONDS - step_started)) s)"; }

# quietly NAME COMMAND...: runs a command with its output in build/logs/NAME.log; shows the log's
# end when it fails.
quietly() {
  local name=$1
  shift
  mkdir -p "$log_folder"
  if ! "$@" >"$log_folder/$name.log" 2>&1; then
    tail -n 30 "$log_folder/$name.log" >&2
    fail "$name failed; the whole output is in $log_folder/$name.log"
  fi
}

# build_release TARGET: configures the release preset and builds one target.
build_release() {
  quietly configure cmake --preset release
  quietly build cmake --build --preset release --target "$1"
}
