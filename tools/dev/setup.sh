# What ./dev installs, and where. System packages come through apt from tools/packages.txt; Python wheels go into folders
# under .deps/, one per use, each listed in a tools/requirements-*.txt. Sourced by ./dev.

say() { printf '[dev] %s\n' "$*"; }
die() { printf '[dev] %s\n' "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

as_root() {
  if ((EUID == 0)); then "$@"; else sudo "$@"; fi
}

# The packages of the named groups that are not installed, on one line.
missing_packages() {
  local wanted installed
  wanted=$(awk -v groups=" $* " '!/^#/ && NF && index(groups, " " $1 " ") {print $2}' tools/packages.txt | sort -u)
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $wanted 2>/dev/null | awk '$1 == "installed" {print $2}' | sort -u || true)
  comm -23 <(printf '%s\n' "$wanted") <(printf '%s\n' "$installed") | tr '\n' ' '
}

need_packages() {
  [[ -z ${BURNISH_SKIP_PACKAGES:-} ]] || return 0
  have apt-get && have dpkg-query ||
    die "this machine has no apt (Debian 12 is what is supported): install the packages of tools/packages.txt your own way, then set BURNISH_SKIP_PACKAGES=1"
  install_packages "$(missing_packages "$@")"
}

install_packages() {
  local packages=${1%% }
  [[ -n $packages ]] || return 0
  if ((EUID != 0)); then
    have sudo || die "installing $packages needs root, and there is no sudo: run as root once: apt-get install $packages"
    [[ -t 0 ]] || sudo -n true 2>/dev/null ||
      die "installing $packages needs root, and sudo asks for a password here: run 'sudo apt-get install $packages' in a terminal once"
  fi
  say "installing system packages: $packages"
  mkdir -p "$DEPS"
  as_root apt-get -qq update >"$DEPS/apt.log" 2>&1 ||
    die "apt-get update failed: is there a network? $(tail -n 1 "$DEPS/apt.log") (all of it: .deps/apt.log)"
  # shellcheck disable=SC2086
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install $packages >>"$DEPS/apt.log" 2>&1 ||
    die "apt-get could not install $packages: $(grep -m 1 '^E:' "$DEPS/apt.log") (all of it: .deps/apt.log)"
}

need_pip() {
  have python3 && python3 -m pip --version >/dev/null 2>&1 && return
  [[ -z ${BURNISH_SKIP_PACKAGES:-} ]] && have apt-get || die "python3 with pip is needed and not found: install them and run again"
  install_packages "python3 python3-pip"
}

# True when every line of the requirements file is installed in the folder, at its version.
folder_is_current() {
  local folder=$1 requirements=$2 name version
  [[ -d $folder ]] || return 1
  while IFS='=' read -r name _ version; do
    name=${name%%\[*}  # without its extras
    name=${name//-/_}
    # The version may end in '*', so it is left unquoted.
    compgen -G "$folder/${name,,}-${version:-*}.dist-info" >/dev/null || return 1
  done < <(sed 's/#.*//; s/[[:space:]]//g; /^$/d' "$requirements")
}

# need_python_folder NAME REQUIREMENTS DESCRIPTION [pip options]: makes .deps/NAME from a requirements file. It is filled beside
# its final place and renamed, so an interrupted install leaves nothing behind that looks whole.
need_python_folder() {
  local name=$1 requirements=$2 description=$3 folder=$DEPS/$1 quiet=()
  shift 3
  ! folder_is_current "$folder" "$requirements" || return 0
  need_pip
  mkdir -p "$DEPS"
  exec {lock}>"$DEPS/.lock"
  flock "$lock"
  if ! folder_is_current "$folder" "$requirements"; then
    say "installing into .deps/$name: $description"
    [[ -t 1 ]] || quiet=(--quiet)
    PARTIAL=$(mktemp -d "$DEPS/.partial.XXXXXX")
    trap 'rm -rf "$PARTIAL"' EXIT
    python3 -m pip install --disable-pip-version-check --no-input --no-compile --root-user-action=ignore ${quiet[@]+"${quiet[@]}"} \
      --target "$PARTIAL/$name" "$@" -r "$requirements" 2>"$DEPS/pip-$name.log" ||
      die "pip could not fill .deps/$name: is there a network? $(grep -m 1 '^ERROR' "$DEPS/pip-$name.log") (all of it: .deps/pip-$name.log)"
    folder_is_current "$PARTIAL/$name" "$requirements" || die "pip said it installed $requirements, but a wheel of it is missing; see .deps/pip-$name.log"
    [[ ! -e $folder ]] || mv "$folder" "$PARTIAL/replaced"
    mv "$PARTIAL/$name" "$folder"
    rm -rf "$PARTIAL"
  fi
  exec {lock}>&-
}

need_golden() {
  need_python_folder golden tools/requirements-golden.txt "torch, diffusers, transformers and peft to compare with, about 3 GB to download"
}

need_diffsynth() {
  need_python_folder diffsynth tools/requirements-diffsynth.txt "DiffSynth-Studio and what it imports, about 40 MB" --no-deps
}

# --- which torch ---------------------------------------------------------------------------------------------------------------

# The torch that everything is done with (docs/decisions/0096). Sources compile with others too: those of tools/requirements-torch-VERSION.txt.
HOUSE_TORCH=2.11.0

version_of_torch() { sed -n "s/^__version__ = '\([0-9.]*\).*/\1/p" "$1/version.py"; }

# The versions that can be built with, the house's first.
buildable_torches() {
  local file
  printf '%s' "$HOUSE_TORCH"
  for file in tools/requirements-torch-[0-9]*.txt; do file=${file#*torch-}; printf ' %s' "${file%.txt}"; done
}

# check_torch VERSION WHERE: ends where nothing can be built with it.
check_torch() {
  local known
  known=$(buildable_torches)
  [[ " $known " == *" $1 "* ]] || die "the torch $2 is ${1:-of no version}, and burnish is built with one of: $known (docs/install.md)"
}

# The choice of an earlier call, unless this one makes its own.
remember_choice() {
  local saved_device="" saved_torch=""
  if [[ -f $DEPS/choice ]]; then { read -r saved_device; read -r saved_torch; } <"$DEPS/choice" || true; fi
  if [[ -n ${ASKED_DEVICE:-}${ASKED_TORCH:-} ]]; then
    [[ -z ${ASKED_TORCH:-} ]] || ASKED_TORCH=$(checked_torch "$ASKED_TORCH")
    mkdir -p "$DEPS"
    printf '%s\n%s\n' "${ASKED_DEVICE:-auto}" "${ASKED_TORCH:-}" >"$DEPS/choice"
  else
    [[ $saved_device == auto ]] || ASKED_DEVICE=$saved_device
    ASKED_TORCH=$saved_torch
  fi
  if [[ -n ${BURNISH_TORCH:-} ]]; then ASKED_TORCH=$(checked_torch "$BURNISH_TORCH"); fi
}

checked_torch() {
  [[ -f $1/lib/libtorch_cpu.so ]] || die "'$1' is no torch folder: lib/libtorch_cpu.so is not in it"
  check_torch "$(version_of_torch "$1")" "in '$1'"
  readlink -f "$1"
}

has_nvidia_gpu() {
  [[ -e /dev/nvidia0 ]] || { have nvidia-smi && nvidia-smi -L 2>/dev/null | grep -q GPU; }
}

# A torch 2.11.0 with CUDA that python3 on PATH would import, or nothing. It is not imported: that takes seconds.
torch_of_python() {
  have python3 || return 0
  python3 - <<'PYTHON' 2>/dev/null || true
import importlib.util, pathlib, re
spec = importlib.util.find_spec("torch")
folder = pathlib.Path(spec.submodule_search_locations[0])
text = (folder / "version.py").read_text()
if re.search(r"__version__ = '2\.11\.0", text) and (folder / "lib/libtorch_cuda.so").exists() and not re.search(r"^cuda.*= None", text, re.M):
    print(folder)
PYTHON
}

# Sets TORCH to a torch of VERSION for CPUs, installing it when needed.
need_torch() {
  local version=$1 name=libtorch requirements=tools/requirements-torch.txt
  if [[ $version != "$HOUSE_TORCH" ]]; then name=torch-$version requirements=tools/requirements-torch-$version.txt; fi
  TORCH=$DEPS/$name/torch
  need_python_folder "$name" "$requirements" "libtorch $version without its CUDA dependencies, about 0.6 GB to download" --no-deps
}

# Sets DEVICE (cpu or cuda) and TORCH (the torch folder), installing it when needed.
choose_torch() {
  DEVICE=${ASKED_DEVICE:-}
  if [[ -z $DEVICE ]]; then
    if has_nvidia_gpu; then DEVICE=cuda; else DEVICE=cpu; fi
  fi
  if [[ -n ${ASKED_VERSION:-} ]]; then need_torch "$ASKED_VERSION"; return; fi
  if [[ -n ${ASKED_TORCH:-} ]]; then TORCH=$ASKED_TORCH; return; fi
  if [[ $DEVICE == cpu ]]; then need_torch "$HOUSE_TORCH"; return; fi
  TORCH=$DEPS/libtorch-cuda/torch
  if [[ ! -d $TORCH ]]; then
    local found
    found=$(torch_of_python)
    if [[ -n $found ]]; then
      say "using the torch 2.11.0 that python3 has: $found"
      TORCH=$found
      return
    fi
  fi
  need_python_folder libtorch-cuda tools/requirements-torch-cuda.txt "libtorch 2.11.0 and the CUDA libraries, about 3 GB to download"
}

need_arrow() {
  ARROW=$DEPS/arrow/pyarrow
  need_python_folder arrow tools/requirements-arrow.txt "Arrow's libraries, which read Parquet files, about 54 MB to download" --no-deps
}

need_triton() {
  need_python_folder triton tools/requirements-triton.txt "Triton, which compiles kernels for GPUs and interprets them in tests, about 210 MB to download" --no-deps
}

# What a build for aarch64 is linked to: Debian's packages for it, unpacked into .deps/arm64/root, and the wheels for it. Sets TORCH and ARROW.
need_arm64() {
  local packages root=$DEPS/arm64/root wheels=(--no-deps --only-binary=:all: --python-version 3.11 --platform manylinux_2_28_aarch64
    --platform manylinux_2_25_aarch64 --platform manylinux2014_aarch64)
  need_packages build arm64
  if [[ ! -d $root ]]; then
    packages=$(awk '$1 == "build" && $2 ~ /-dev$/ {print $2}' tools/packages.txt | paste -s -d ,)
    say "unpacking Debian's packages for arm64 into .deps/arm64/root"
    mkdir -p "$DEPS/arm64"
    rm -rf "$root.partial"
    mmdebstrap --quiet --variant=extract --architectures=arm64 --include="$packages" bookworm "$root.partial" >"$DEPS/arm64.log" 2>&1 ||
      die "mmdebstrap could not fetch the packages: $(grep -m 1 '^E:' "$DEPS/arm64.log") (all of it: .deps/arm64.log)"
    mv "$root.partial" "$root"
  fi
  need_python_folder arm64-libtorch tools/requirements-torch.txt "libtorch 2.11.0 for aarch64" "${wheels[@]}"
  need_python_folder arm64-arrow tools/requirements-arrow.txt "Arrow's libraries for aarch64" "${wheels[@]}"
  DEVICE=cpu TORCH=$DEPS/arm64-libtorch/torch ARROW=$DEPS/arm64-arrow/pyarrow
}

need_build_tools() {
  need_packages build
  choose_torch
  need_arrow
}
