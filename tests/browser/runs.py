"""Folders that look like those of runs, for the pages: a log, settings and previews."""
import json, math, os, pathlib, random, socket, struct, subprocess, time, zlib

NUM_BINS = 10
PROMPTS = ["a fox in line art, facing left", "</script><b>bold</b> & \"quoted\" – ein Fuchs 🦊", "a lighthouse on a cliff at dusk, long exposure, film grain, muted colours"]


def record(step, total, rng, level, start=1.76e9):
    """A line of log.jsonl: losses that fall with the steps, noisier where there is less noise in the picture."""
    share = step / total
    falling = level * (0.35 + 0.65 * math.exp(-5 * share))
    bins = []
    for i in range(NUM_BINS):
        raw = falling * (0.4 + 1.3 * (1 - i / NUM_BINS) ** 2) * rng.lognormvariate(0, 0.25)
        seen = rng.random() < 0.4
        bins.append({"raw": raw if seen else None, "weighted": raw * 0.7 if seen else None, "count": int(seen)})
    seconds = 0.41 * rng.lognormvariate(0, 0.05) + (0.6 if step % 97 == 0 else 0)
    raw_loss = falling * rng.lognormvariate(0, 0.45)
    line = {"step": step, "loss": raw_loss * rng.uniform(0, 1.8), "raw_loss": raw_loss, "grad_norm": 0.8 * falling * rng.lognormvariate(0, 0.4) * (9 if step % 151 == 0 else 1),
            "lr": 1e-4 * min(1, step / 40) * (0.5 + 0.5 * math.cos(math.pi * share)), "samples_per_second": 4 / seconds, "step_seconds": seconds,
            "data_seconds": 0.004 * rng.lognormvariate(0, 0.3), "time": start + 0.45 * step, "peak_memory_bytes": int(6.2e9 + 3e8 * min(1, step / 30)),
            "loss_by_time": bins, "note": "unknown fields do no harm"}
    if step % 50 == 0:
        line["validation_loss"] = level * (0.42 + 0.5 * math.exp(-4 * share)) * (1 + 0.02 * rng.random())
    return json.dumps(line) + "\n"


def picture(step, number, side=64):
    """A disc that becomes sharp as the steps go on."""
    sharp = 1 - math.exp(-step / 150)
    colors = [(196, 86, 43), (47, 111, 179), (31, 138, 112)]
    rng, rows = random.Random(step * 7 + number), b""
    for y in range(side):
        rows += b"\0"
        for x in range(side):
            inside = math.hypot(x - side / 2, y - side / 2) < side / 3
            noise = rng.random() * 255
            rows += bytes(int(sharp * (c if inside else 240) + (1 - sharp) * noise) for c in colors[number % 3])
    return rows


def png(rows, side, prompt):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    text = b"prompt\0\0\0\0\0" + prompt.encode()
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) + chunk(b"iTXt", text) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def add_previews(run, step):
    folder = pathlib.Path(run) / "samples" / f"step-{step:06}"
    folder.mkdir(parents=True)
    for number, prompt in enumerate(PROMPTS):
        (folder / f"{number:02}.png").write_bytes(png(picture(step, number), 64, prompt))


CLIPS = {"03.webp": "-c:v libwebp_anim -lossless 0 -loop 0", "04.mp4": "-c:v libx264 -movflags +faststart+use_metadata_tags",
         "05.webm": "-c:v libvpx-vp9 -deadline realtime -cpu-used 8", "06": ""}


def add_clips(run, step):
    """A clip of each kind beside the pictures of a step: a square that moves, farther the later the step is. The MP4 has a tone that rises."""
    folder = pathlib.Path(run) / "samples" / f"step-{step:06}"
    for name, encoder in CLIPS.items():
        path = folder / name
        moving = f"color=c=white:s=128x96:r=8:d=2[a];color=c=red:s=24x24:r=8:d=2[b];[a][b]overlay=x='4*n':y={20 + step // 10}:format=gbrp,format=yuv420p"
        if not encoder:
            path.mkdir()
            path, encoder = path / "%05d.png", "-start_number 0 -pix_fmt rgb24"
        tone = ["-f", "lavfi", "-i", "aevalsrc=0.5*sin(2*PI*(200*t+600*t*t)):d=2", "-c:a", "aac"] if name.endswith(".mp4") else []
        subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", moving, *tone, "-metadata", f"prompt=a square that moves, {name}", "-metadata", "frame_rate=8",
                        *encoder.split(), path], check=True)


def write_status(run, state, process=None, **values):
    """The status of a run that `process` does; this one, without it."""
    process = process or os.getpid()
    start = pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[19]
    status = {"state": state, "stage": "", "done": 0, "total": 0, "seconds_left": None, "sentence": "", "exit_code": None,
              "process": {"id": process, "start": int(start), "host": socket.gethostname()}, "started": time.time() - 60, "written": time.time(), **values}
    run.mkdir(parents=True, exist_ok=True)
    (run / "status.new").write_text(json.dumps(status))
    (run / "status.new").rename(run / "status.json")


def make_run(run, num_steps, total, level=0.3, rank=16, seed=1):
    run = pathlib.Path(run)
    run.mkdir(parents=True)
    (run / "config.toml").write_text(f'''# Model
model = ["models/tiny-flux"]  # diffusers folder, component folder or single .safetensors file; may be given several times
dtype = "bf16"  # fp32, bf16 or, for some models, fp16: what the model is held and computed in
fp8_models = ""  # models whose weights are held in FP8
seed = 0  # names every random draw of the run

# Data
dataset_metadata_path = "pictures/metadata.csv"  # CSV, JSON or JSONL
max_pixels = 1048576  # area above which a picture is scaled down
batch_size = 4  # samples of equal size in a batch
caption_dropout = 0.0  # share of visits under the empty caption

# What trains
trainable_models = ""  # components that train whole
lora_base_model = "dit"  # components that carry adapters
lora_type = "lora"  # lora, dora, loha or lokr
lora_rank = {rank}  # rank
lora_alpha = {rank}.0  # scale is alpha / rank; 0 takes the rank

# Optimisation
optimizer = "adamw"  # the update rule
learning_rate = {0.0016 / rank}  # peak learning rate
lr_scheduler = "cosine"  # constant, linear or cosine
lr_warmup_steps = 40  # steps over which the learning rate rises
max_steps = {total}  # optimizer steps; 0 goes by num_epochs
ema_decay = 0.999  # moving average

# Output
output_path = "{run.name}"  # run folder
save_steps = 100  # also save every N steps; 0 saves at the end only
resume = false  # go on from the state in output_path
''')
    rng = random.Random(seed)
    (run / "log.jsonl").write_text("".join(record(step, total, rng, level) for step in range(1, num_steps + 1)))
    for step in range(0, num_steps + 1, 100):
        add_previews(run, step)
    return run
