#!/usr/bin/env bash
# Builds packaging/container/Containerfile, without CUDA, from the wheel in dist/, and trains and draws in the image as whoever it says. No
# registry is asked: the Debian that it starts from is made here. Takes root, and 10 GB of the disk while it runs.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
work=$(mktemp -d)
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
store() { buildah --root "$work/store" --runroot "$work/run" "$@"; }
clean_up() {
  store rm --all >/dev/null 2>&1 || true
  rm -rf "$work"
}
trap clean_up EXIT
say() { printf '[image] %s\n' "$*"; }

say "a new Debian 12"
# It trusts whom this machine trusts, which may reach the package index through a proxy of its own.
cat >"$work/customize" <<'HOOK'
install -D -m 644 /etc/ssl/certs/ca-certificates.crt "$1/usr/local/share/ca-certificates/of-the-machine-that-builds.crt"
printf '[global]\ncert = /etc/ssl/certs/ca-certificates.crt\n' >"$1/etc/pip.conf"
HOOK
sources=$(grep -l bookworm /etc/apt/sources.list /etc/apt/sources.list.d/*.sources 2>/dev/null || true)
# shellcheck disable=SC2086
mmdebstrap --quiet --variant=minbase --customize-hook="sh $work/customize \"\$1\"" bookworm "$work/debian.tar" $sources 2>"$work/said" ||
  { cat "$work/said" >&2; exit 1; }
base=$(store from scratch)
store add -q "$base" "$work/debian.tar" /
store commit -q "$base" localhost/debian:12 >/dev/null
store rm "$base" >/dev/null
rm "$work/debian.tar"

say "the image"
began=$SECONDS
store build --build-arg DEBIAN=localhost/debian:12 --build-arg CUDA=0 --layers=false -t burnish -f packaging/container/Containerfile . >"$work/said" 2>&1 ||
  { tail -n 40 "$work/said" >&2; exit 1; }
say "built in $((SECONDS - began)) s"

container=$(store from --pull-never burnish)
root=$(store mount "$container")
say "it holds $(du -sxm "$root" | cut -f 1) MB, $(du -sxm "$root/opt/burnish" | cut -f 1) MB of them torch and burnish"
# `buildah run` starts a command as the image's user, with its environment and in its folder, but without its entry point.
[[ $(store config --format '{{.OCIv1.Config.User}} {{.OCIv1.Config.Entrypoint}}' "$container" 2>/dev/null ||
  store inspect --format '{{.OCIv1.Config.User}} {{.OCIv1.Config.Entrypoint}}' "$container") == "1000 [burnish]" ]] ||
  { echo "the image starts something else than burnish, or as somebody else" >&2; exit 1; }
[[ $(store run "$container" -- id -u) == 1000 ]] || { echo "the image runs as root" >&2; exit 1; }
mkdir -p "$work/volume/data/pictures"
cp -rL assets/tiny-flux "$work/volume/data/model"
cp tests/golden/pipeline/pictures/* "$work/volume/data/pictures/"
chown -R 1000:1000 "$work/volume"
# Beside /work, where the volume of the image is.
inside() { store run --volume "$work/volume:/data" --workingdir /data "$container" -- "$@"; }
began=$SECONDS
inside burnish train --model data/model --dtype fp32 --num_threads 1 --dataset_metadata_path data/pictures/metadata.csv --height 64 --width 64 \
  --lora_rank 4 --max_steps 3 --output_path runs/cat
inside burnish sample --run runs/cat --prompt "a red apple" --height 64 --width 64 --num_inference_steps 2 --num_threads 1 --output_path drawn
say "it trained and drew after $((SECONDS - began)) s, as user 1000"
# The studio, as the image starts it: its address with a token stands in the log.
inside timeout 20 burnish studio /work --listen --no_browser >"$work/studio" 2>&1 || [[ $? == 124 ]]
grep -q 'http://.*token=' "$work/studio" || { echo "the studio says no address:" >&2; cat "$work/studio" >&2; exit 1; }
say "the image trains, draws and starts the studio"
