#!/usr/bin/env bash
# The demo: teaches the small model of assets/tiny-flux to draw pixel art, and shows what changed. `./dev demo` runs it; BURNISH names the
# program. Everything it makes is in build/demo/.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
BURNISH=${BURNISH:-build/burnish}
OUT=build/demo

mkdir -p "$OUT"
for split in lora held_out; do
  python3 recipes/tiny_flux/make_pictures.py --style pixel --size 192 --split "$split" --out "$OUT/pictures/$split"
done
python3 examples/demo/pictures.py prompts "$OUT"

rm -rf "$OUT/run"
"$BURNISH" train --config examples/demo/pictures.toml --output_path "$OUT/run"
cp "$OUT/run/step-100.safetensors" "$OUT/pixel-lora.safetensors"

draw() {  # draw FOLDER [options]: the same captions from the same noise each time; some guidance makes outlines of a small model firmer
  local folder=$1
  shift
  rm -rf "$folder"
  "$BURNISH" sample --model assets/tiny-flux --dtype fp32 --prompts "$OUT/prompts.txt" --height 192 --width 192 \
    --num_inference_steps 24 --cfg_scale 1.5 --batch_size 12 --seed 7 --output_path "$folder" "$@"
}
rm -rf "$OUT/drawn"
draw "$OUT/drawn/0"
for step in 10 25 50 100; do
  draw "$OUT/drawn/$step" --lora "$OUT/run/step-$step.safetensors"
done

python3 examples/demo/pictures.py sheet "$OUT"
