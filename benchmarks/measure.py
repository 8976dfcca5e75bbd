"""What the benchmarks share: a process with its clock and its memory, the machine in words, and the record of a run. Linux only."""
import datetime
import json
import os
import re
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRATCH = ROOT / "build/bench"
RESULTS = ROOT / "benchmarks/results"


@dataclass
class Finished:
    """A process that ended well."""
    start: float  # Unix time
    seconds: float
    peak_mib: float  # ru_maxrss; true while the process that starts it is itself small
    other_cpu: float  # share of the machine's CPU that other processes used meanwhile
    cpu_seconds: float = 0  # of the process itself


def add_case_options(parser, cases, dropped, alternations, steps, threads):
    """The options of a benchmark that runs cases in turn, with these defaults; `dropped` first steps of a run are not counted."""
    parser.add_argument("--cases", default="", help="regular expression; the cases are " + "; ".join(cases))
    parser.add_argument("--alternations", type=int, default=alternations, help="runs of each case")
    parser.add_argument("--steps", type=int, default=steps, help=f"of each run; the first {dropped} are not counted")
    parser.add_argument("--threads", type=int, default=threads)


def with_chosen_cases(parser, args, cases, dropped):
    """The arguments with `chosen`, the cases that the regular expression --cases matches; checked, --steps and --alternations too."""
    if args.steps <= dropped or args.alternations < 1:
        parser.error(f"--steps must be above {dropped} and --alternations at least 1")
    args.chosen = [case for case in cases if re.search(args.cases, case)]
    if not args.chosen:
        parser.error(f"--cases '{args.cases}' matches none of {', '.join(cases)}")
    return args


def busy_seconds():
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, softirq, steal = (int(n) for n in file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def run(command, log, environment):
    """Runs the command to its end with its output in the file `log`; stops everything with one sentence when it fails."""
    Path(log).parent.mkdir(parents=True, exist_ok=True)
    busy, start = busy_seconds(), time.time()
    with open(log, "wb") as output:
        process = subprocess.Popen([str(word) for word in command], stdout=output, stderr=subprocess.STDOUT, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds, busy = time.time() - start, busy_seconds() - busy
    if process.returncode != 0:
        lines = Path(log).read_text(errors="replace").strip().splitlines() or ["it said nothing"]
        sys.exit(f"{Path(str(command[0])).name} ended with {process.returncode}: {lines[-1]} (all of it: {log})")
    own = usage.ru_utime + usage.ru_stime
    return Finished(start, seconds, usage.ru_maxrss / 1024, max(0.0, busy - own) / (seconds * os.cpu_count()), own)


def cpu_per_file(load, files):
    """CPU milliseconds a file in this process, behind one file that is not counted."""
    load(files[0])
    start = time.process_time()
    for file in files:
        load(file)
    return 1e3 * (time.process_time() - start) / len(files)


def output_on_one_thread(command, **more):
    """What a command prints; stops everything when it fails."""
    environment = dict(os.environ, OMP_NUM_THREADS="1", BURNISH_BENCH_THREADS="1", **more)
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"{command[0]} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def loaders_in_turn(script, arguments, loaders, micro_filter, alternations, **variable):
    """CPU milliseconds a file, a list a program: of bench_micro by a filter, and of each loader by a process of the script."""
    times = {name: [] for name in ("burnish", *loaders)}
    for turn in range(alternations):
        for name in sorted(times, reverse=bool(turn % 2)):
            if name == "burnish":
                micro = [ROOT / "build/bench_micro", f"--benchmark_filter={micro_filter}/", "--benchmark_format=json"]
                times[name].append(json.loads(output_on_one_thread(micro, **variable))["benchmarks"][0]["cpu_time"])
            else:
                times[name].append(float(output_on_one_thread([sys.executable, script, *arguments, "--peer", name])))
    return times


def record_loaders(what, title, command, says, times):
    """Prints and records what loaders_in_turn measured of each kind of file."""
    machine, rows = cpu(), []
    for kind, of_kind in times.items():
        ours = median(of_kind["burnish"])
        for name, of in of_kind.items():
            rows.append([kind, name, f"{median(of):.1f}", f"{1e3 / median(of):.2f}", f"{median(of) / ours:.2f}"])
    text = (f"# {title}\n\n{machine['name']}; burnish {commit()}; `{command}`.\n{says}\n\n"
            + markdown(["files", "program", "ms a file", "files a second", "burnish's speed over it"], rows))
    print(text)
    print(f"recorded in {record(what, machine['name'], text, times)}")


def read_lines(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def environment(num_threads):
    """This process's environment for a measured one. Bytecode may be written: a peer that compiles its sources anew is not what is
    compared."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {"OMP_NUM_THREADS": str(num_threads)}


def burnish():
    program = Path(os.environ.get("BURNISH", ROOT / "build/burnish"))
    if not program.exists():
        sys.exit(f"no program at {program}: run ./dev bench, which builds it, or name it in BURNISH")
    return program


def small_model():
    """assets/tiny-flux with its weights in bf16, where the file has FP8."""
    folder = SCRATCH / "tiny-flux"
    if not (folder / "model_index.json").exists():
        run([burnish(), "convert", ROOT / "assets/tiny-flux", folder, "--weight_format", "none", "--overwrite"], SCRATCH / "tiny-flux.log", dict(os.environ))
    return folder


def has_modules(names, environ):
    """Whether a python3 of its own can import them all; asked of a process, so that this one stays small."""
    code = "import importlib.util as u, sys; sys.exit(not all(u.find_spec(n) for n in sys.argv[1:]))"
    return subprocess.run([sys.executable, "-c", code, *names], env=environ).returncode == 0


def cpu():
    text = Path("/proc/cpuinfo").read_text()
    name = re.search(r"^model name\s*:\s*(.+)$", text, re.M)
    flags = set(re.search(r"^(?:flags|Features)\s*:\s*(.+)$", text, re.M).group(1).split())
    return {"name": name.group(1).strip() if name else os.uname().machine, "cores": os.cpu_count(),
            "bf16_instructions": [] if held_back() else sorted(flags & {"avx512_bf16", "amx_bf16"}),
            "held_back": os.environ["ONEDNN_MAX_CPU_ISA"] if held_back() else ""}


def held_back():
    """Whether ONEDNN_MAX_CPU_ISA keeps oneDNN, and with it torch and burnish, from bf16 instructions that the CPU may have."""
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", "DEFAULT")
    return limit != "DEFAULT" and not re.search("BF16|FP16|AMX", limit)


def commit():
    """The commit that is measured, marked when the working tree differs from it."""
    got = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=10"], capture_output=True, text=True)
    return got.stdout.strip() if got.returncode == 0 else "unknown"


def record(what, machine, table, data):
    """Adds a run to the month's file, results/<month>.md, and what was measured to the .json beside it, under one heading; a run takes the
    place of an earlier one of the same day. Returns the path of the .md."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    day = datetime.date.today().isoformat()
    page, numbers, heading = RESULTS / f"{day[:7]}.md", RESULTS / f"{day[:7]}.json", f"{day} {what}, {machine}"
    runs = dict(section.split("\n\n", 1) for section in re.split("^## ", page.read_text(), flags=re.M)[1:]) if page.exists() else {}
    runs[heading] = table.removeprefix("# ").rstrip() + "\n\n"
    measured = json.loads(numbers.read_text()) if numbers.exists() else {}
    measured[heading] = data
    title = f"# Benchmarks of {day[:7]}\n\nEach run's numbers are in {numbers.name} under its heading.\n\n"
    page.write_text((title + "".join(f"## {run}\n\n{runs[run].rstrip()}\n\n" for run in sorted(runs))).rstrip() + "\n")
    numbers.write_text(json.dumps(dict(sorted(measured.items())), indent=1) + "\n")
    return page


def tell(what, text, data):
    """Prints a report of this machine, records it with what was measured, and says where."""
    print("\n" + text)
    print("recorded in", record(what, cpu()["name"], text, data))


median = statistics.median


def markdown(headings, rows):
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines) + "\n"
