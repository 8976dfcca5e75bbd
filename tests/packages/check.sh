#!/usr/bin/env bash
# Installs what `./dev package` made where nothing of this checkout is: the wheel in a new virtual environment, the Debian package in a new
# Debian 12 below a folder. Each then trains a LoRA and draws with it. TORCH names the torch folder that both are put beside.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
work=$(mktemp -d)
# Nothing is removed below a mount that would not come off: behind it lies what is tried with.
clean_up() {
  local place
  for place in {root,trixie}/{opt/site,work,proc}; do
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

say "the wheel, in a new virtual environment"
began=$SECONDS
python3 -m venv "$work/venv"
dirname "$TORCH" >"$(echo "$work"/venv/lib/python3*/site-packages)/torch_of_the_test.pth"
"$work/venv/bin/pip" install --quiet --no-deps --disable-pip-version-check dist/burnish-*.whl
try "$work/data" env -i PATH=/usr/bin:/bin "$work/venv/bin/burnish"
took=$((SECONDS - began))
say "installed, trained a LoRA and drew with it after $took s"
((took < 180)) || { echo "that should take less than three minutes" >&2; exit 1; }
# Parquet is read with pyarrow, and a sentence says so without it.
look() { env -i PATH=/usr/bin:/bin XDG_CACHE_HOME="$work/cache" "$work/venv/bin/burnish" data tests/golden/data/parquets/photos.parquet; }
if look 2>"$work/said"; then exit 1; fi
grep -q "pip install 'pyarrow>=26,<27'" "$work/said"
echo "$PWD/.deps/arrow" >"$(echo "$work"/venv/lib/python3*/site-packages)/pyarrow_of_the_test.pth"
look | grep "3 pictures, 3 samples"
gzip -dc "$work/venv/share/man/man1/burnish.1.gz" | grep 'lora_rank' >/dev/null  # to the end: gzip must not find its pipe closed
completed=$(PATH=$work/venv/bin:$PATH bash -c '. "$0"; COMP_WORDS=(burnish train --lora_ra); COMP_CWORD=2; _burnish; echo "${COMPREPLY[*]}"' \
  "$work/venv/share/bash-completion/completions/burnish")
[[ $completed == "--lora_rank --lora_rank_groups" ]] || { echo "completion says '$completed'" >&2; exit 1; }
completed=$(PATH=$work/venv/bin:$PATH bash -c '. "$0"; COMP_WORDS=(burnish train --lora_type l); COMP_CWORD=3; _burnish; echo "${COMPREPLY[*]}"' \
  "$work/venv/share/bash-completion/completions/burnish")
[[ $completed == "lora loha lokr" ]] || { echo "completion of choices says '$completed'" >&2; exit 1; }
completed=$(PATH=$work/venv/bin:$PATH fish --no-config -c 'source $argv[1]; complete -C "burnish train --lora_ra"' \
  "$work/venv/share/fish/vendor_completions.d/burnish.fish" | cut -f 1 | paste -s -d ' ')
[[ $completed == "--lora_rank --lora_rank_groups" ]] || { echo "completion of fish says '$completed'" >&2; exit 1; }
completed=$(PATH=$work/venv/bin:$PATH fish --no-config -c 'source $argv[1]; complete -C "burnish train --lora_type do"' \
  "$work/venv/share/fish/vendor_completions.d/burnish.fish" | cut -f 1 | paste -s -d ' ')
[[ $completed == dora ]] || { echo "completion of fish offers '$completed' for lora_type" >&2; exit 1; }
completed=$(PATH=$work/venv/bin:$PATH zsh -f tests/packages/zsh_completion.zsh "$work/venv/share/zsh/site-functions" 'burnish train --lora_rank_')
[[ $completed == "burnish train --lora_rank_groups" ]] || { echo "completion of zsh says '$completed'" >&2; exit 1; }
completed=$(PATH=$work/venv/bin:$PATH zsh -f tests/packages/zsh_completion.zsh "$work/venv/share/zsh/site-functions" 'burnish train --lora_type do')
[[ $completed == "burnish train --lora_type dora" ]] || { echo "completion of zsh offers '$completed' for lora_type" >&2; exit 1; }

say "the wheel without a torch says so"
python3 -m venv "$work/bare"
"$work/bare/bin/pip" install --quiet --no-deps --disable-pip-version-check dist/burnish-*.whl
if "$work/bare/bin/burnish" --version 2>"$work/said"; then exit 1; fi
grep -q "torch 2.11.0 is needed" "$work/said"

# new_root NAME FOLDER: a new system of that release of Debian, and the mounts by which the packages are tried in it.
new_root() {
  local name=$1 root=$2 sources
  sources=$(grep -l bookworm /etc/apt/sources.list /etc/apt/sources.list.d/*.sources 2>/dev/null || true)
  if [[ $name != bookworm ]]; then
    # shellcheck disable=SC2086
    sed "s/bookworm/$name/g" $sources >"$work/$name.${sources##*.}"
    sources=$work/$name.${sources##*.}
  fi
  # shellcheck disable=SC2086
  mmdebstrap --quiet --variant=apt ${3:+--include="$3"} "$name" "$root" $sources 2>"$work/said" || { cat "$work/said" >&2; exit 1; }
  mkdir -p "$root/opt/site" "$root/work"
  mount --bind -o ro "$(dirname "$TORCH")" "$root/opt/site"
  mount --bind "$work/data" "$root/work"
  mount -t proc proc "$root/proc"
}

((EUID == 0)) || { say "the Debian package needs root to be tried; it was not"; exit 0; }
say "the Debian package, in a new Debian 12"
new_root bookworm "$work/root"
cp dist/burnish_*.deb "$work/root/tmp/"
cp /etc/resolv.conf "$work/root/etc/"
chroot "$work/root" sh -c 'apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends /tmp/burnish_*.deb' \
  >"$work/said" 2>&1 ||
  { cat "$work/said" >&2; exit 1; }
if chroot "$work/root" burnish --version 2>"$work/said"; then exit 1; fi
grep -q "torch 2.11.0 is needed" "$work/said"
try /work env BURNISH_TORCH=/opt/site/torch chroot "$work/root" burnish

say "the wheel, in a new Debian 13"
new_root trixie "$work/trixie" python3-venv
cp dist/burnish-*.whl "$work/trixie/tmp/"
# shellcheck disable=SC2016
chroot "$work/trixie" sh -c 'python3 -m venv /venv && echo /opt/site >"$(echo /venv/lib/python3*/site-packages)/torch_of_the_test.pth" &&
  /venv/bin/pip install --quiet --no-deps --no-index --disable-pip-version-check /tmp/burnish-*.whl'
try /work chroot "$work/trixie" /venv/bin/burnish
say "both packages train and draw"
