# Shared by the scripts of tools/. To be sourced, not run:
#   source "$(dirname "${BASH_SOURCE[0]}")/setup/common.sh"
# Sets $root to the repository's root and changes to it; provides messages, timed steps, and one
# clear line on stderr if a command fails.
# shellcheck shell=bash
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root"
program=tools/$(basename "$0")
log_folder=$root/build/logs

say() { printf '%s\n' "$*"; }

# fail MESSAGE: prints the error line and exits.
fail() {
  printf '%s: %s\n' "$program" "$*" >&2
  exit 1
}

# A failure that no command handles still ends with a line that names it.
trap 'fail "line $LINENO: \"$BASH_COMMAND\" failed"' ERR

# begin_step TITLE: announces a step; end_step [RESULT] ends it with its duration in seconds.
step_number=0
step_started=0
begin_step() {
  step_number=$((step_number + 1))
  step_started=$SECONDS
  printf '\n[%d/%d] %s\n' "$step_number" "${step_total:-0}" "$*"
}
end_step() { say "      ${1:-done} ($((SECONDS - step_started)) s)"; }

# quietly NAME COMMAND...: runs a command with its output in build/logs/NAME.log; shows the end of
# the log if it fails.
quietly() {
  local name=$1
  shift
  mkdir -p "$log_folder"
  if ! "$@" >"$log_folder/$name.log" 2>&1; then
    tail -n 30 "$log_folder/$name.log" >&2
    fail "$name failed; the full output is in $log_folder/$name.log"
  fi
}

# build_preset PRESET TARGET...: configures a preset and builds the targets; logs configure_PRESET
# and build_PRESET.
build_preset() {
  quietly "configure_$1" cmake --preset "$1"
  quietly "build_$1" cmake --build --preset "$1" --target "${@:2}"
}
