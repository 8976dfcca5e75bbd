# shellcheck shell=bash
# Places where nothing of this checkout is, for packages to be tried in: a folder of data, and new systems below a folder. Sourced from the
# project's folder; TORCH names the torch folder that packages are put beside.
work=$(mktemp -d)
# Nothing is removed below a mount that would not come off: behind it lies what is tried with.
clean_up() {
  local place
  for place in {root,trixie}/{opt/site,work,proc,sys}; do
    if mountpoint -q "$work/$place" && ! umount "$work/$place"; then return; fi
  done
  rm -rf "$work"
}
trap clean_up EXIT
say() { printf '[packages] %s\n' "$*"; }

mkdir -p "$work/data/pictures"
cp -rL assets/tiny-flux "$work/data/model"
cp tests/golden/pipeline/pictures/* "$work/data/pictures/"

# try COMMAND...: `COMMAND burnish verb` must train and draw.
try() {
  local data=$1
  shift
  "$@" --version
  "$@" train --model "$data/model" --dtype fp32 --num_threads 1 --dataset_metadata_path "$data/pictures/metadata.csv" --height 64 --width 64 \
    --lora_rank 4 --max_steps 3 --output_path "$data/run"
  "$@" sample --model "$data/model" --dtype fp32 --num_threads 1 --lora "$data/run/step-3.safetensors" --prompt "a red apple" --height 64 \
    --width 64 --num_inference_steps 2 --output_path "$data/drawn"
  rm -rf "$work/data/run" "$work/data/drawn"
}

# new_root NAME FOLDER [PACKAGES [ARCHITECTURE]]: a new system of that release of Debian, and the mounts by which packages are tried in it.
new_root() {
  local name=$1 root=$2 sources
  sources=$(grep -l bookworm /etc/apt/sources.list /etc/apt/sources.list.d/*.sources 2>/dev/null || true)
  if [[ $name != bookworm ]]; then
    # shellcheck disable=SC2086
    sed "s/bookworm/$name/g" $sources >"$work/$name.${sources##*.}"
    sources=$work/$name.${sources##*.}
  fi
  # shellcheck disable=SC2086
  mmdebstrap --quiet --variant=apt ${3:+--include="$3"} ${4:+--architectures="$4"} "$name" "$root" $sources 2>"$work/said" || { cat "$work/said" >&2; exit 1; }
  mkdir -p "$root/opt/site" "$root/work"
  mount --bind -o ro "$(dirname "$TORCH")" "$root/opt/site"
  mount --bind "$work/data" "$root/work"
  mount -t proc proc "$root/proc"
  mount -t sysfs -o ro sysfs "$root/sys"  # what kind of processor it is, where that is no instruction's answer
}

# try_wheel ROOT WHEEL: installs a wheel in the system below a folder, and tries it.
try_wheel() {
  local root=$1 wheel=$2
  cp "$wheel" "$root/tmp/"
  # shellcheck disable=SC2016
  chroot "$root" sh -c 'python3 -m venv /venv && echo /opt/site >"$(echo /venv/lib/python3*/site-packages)/torch_of_the_test.pth" &&
    /venv/bin/pip install --quiet --no-deps --no-index --disable-pip-version-check /tmp/burnish-*.whl'
  try /work chroot "$root" /venv/bin/burnish
}
