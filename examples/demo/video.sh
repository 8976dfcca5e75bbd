#!/usr/bin/env bash
# The demo of clips: teaches the small model of assets/tiny-wan a motion, and shows what changed as an animated picture. `./dev demo video` runs
# it; BURNISH names the program. Everything it makes is in build/demo/video/.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
BURNISH=${BURNISH:-build/burnish}
OUT=build/demo/video

mkdir -p "$OUT"
for split in lora held_out; do
  python3 recipes/tiny_wan/make_clips.py --motion hopping --split "$split" --out "$OUT/$split"
done
python3 examples/demo/video.py prompts "$OUT"

rm -rf "$OUT/run"
"$BURNISH" train --config examples/demo/video.toml --output_path "$OUT/run"
cp "$OUT/run/step-200.safetensors" "$OUT/hopping-lora.safetensors"

draw() {  # draw FOLDER [options]: the same captions from the same noise each time
  local folder=$1
  shift
  rm -rf "$folder"
  "$BURNISH" sample --model assets/tiny-wan --dtype fp32 --prompts "$OUT/prompts.txt" --num_frames 17 --height 64 --width 64 \
    --num_inference_steps 24 --cfg_scale 1.5 --batch_size 6 --seed 7 --output_path "$folder" "$@"
}
draw "$OUT/before"
draw "$OUT/after" --lora "$OUT/hopping-lora.safetensors"

python3 examples/demo/video.py sheet "$OUT"
