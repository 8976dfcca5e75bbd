#!/usr/bin/env bash
# Installs what `./dev package` made where nothing of this checkout is: the wheel in a new virtual environment, the Debian package in a new
# Debian 12 below a folder. Each then trains a LoRA and draws with it. TORCH names the torch folder that both are put beside.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
source tests/packages/places.sh

say "the wheel, in a new virtual environment"
began=$SECONDS
python3 -m venv "$work/venv"
dirname "$TORCH" >"$(echo "$work"/venv/lib/python3*/site-packages)/torch_of_the_test.pth"
"$work/venv/bin/pip" install --quiet --no-deps --disable-pip-version-check dist/burnish-*_x86_64.whl
try "$work/data" env -i PATH=/usr/bin:/bin "$work/venv/bin/burnish"
took=$((SECONDS - began))
say "installed, trained a LoRA and drew with it after $took s"
((took < 180)) || { echo "that should take less than three minutes" >&2; exit 1; }
# What pip asks for is what there are programs for.
"$work/venv/bin/python" - <<'PYTHON'
import importlib.metadata, sys
from burnish.__main__ import programs
from pip._vendor.packaging.requirements import Requirement
asked = Requirement(importlib.metadata.requires("burnish")[0]).specifier
wrong = [version for version in programs() if version not in asked] + [version for version in "2.10.0 2.12.1 2.13.0 2.14.1 2.15.1".split() if version in asked]
sys.exit(f"the wheel asks for torch {asked}, which is wrong of {', '.join(wrong)}" if wrong else 0)
PYTHON
for other in "$PWD"/.deps/torch-*/; do
  say "the wheel, beside $(basename "$other")"
  python3 -m venv "$work/other"
  echo "$other" >"$(echo "$work"/other/lib/python3*/site-packages)/torch_of_the_test.pth"
  "$work/other/bin/pip" install --quiet --no-deps --disable-pip-version-check dist/burnish-*_x86_64.whl
  env -i PATH=/usr/bin:/bin python3 tests/packages/check_runs.py "$work/other/bin/burnish"
  rm -rf "$work/other"
done
# The demo's wheel puts what burnish is tried with where its programs look, and takes nothing else away with it.
"$work/venv/bin/pip" install --quiet --no-deps --disable-pip-version-check dist/burnish_demo-*.whl
demo=$(echo "$work"/venv/lib/python3*/site-packages/burnish/bin/assets)
env -i PATH=/usr/bin:/bin "$work/venv/bin/burnish" train "$demo/demo.toml" --dataset_base_path "$demo/demo-pictures" --max_steps 2 --lr_warmup_steps 0 --num_threads 1 --output_path "$work/demo"
"$work/venv/bin/pip" uninstall --quiet --yes burnish-demo
[[ ! -e $demo ]] || { echo "the demo's wheel leaves files behind" >&2; exit 1; }
env -i PATH=/usr/bin:/bin "$work/venv/bin/burnish" --version
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
"$work/bare/bin/pip" install --quiet --no-deps --disable-pip-version-check dist/burnish-*_x86_64.whl
if "$work/bare/bin/burnish" --version 2>"$work/said"; then exit 1; fi
grep -q "torch 2.11.0 or 2.15.0 is needed" "$work/said"

((EUID == 0)) || { say "the Debian package needs root to be tried; it was not"; exit 0; }
say "the Debian package, in a new Debian 12"
new_root bookworm "$work/root"
cp dist/burnish_*.deb "$work/root/tmp/"
cp /etc/resolv.conf "$work/root/etc/"
chroot "$work/root" sh -c 'apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends /tmp/burnish_*.deb' \
  >"$work/said" 2>&1 ||
  { cat "$work/said" >&2; exit 1; }
if chroot "$work/root" burnish --version 2>"$work/said"; then exit 1; fi
grep -q "torch 2.11.0 or 2.15.0 is needed" "$work/said"
try /work env BURNISH_TORCH=/opt/site/torch chroot "$work/root" burnish

say "the wheel, in a new Debian 13"
new_root trixie "$work/trixie" python3-venv
try_wheel "$work/trixie" dist/burnish-*_x86_64.whl
say "both packages train and draw"
