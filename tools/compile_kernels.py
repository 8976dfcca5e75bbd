#!/usr/bin/env python3
"""Compiles the kernels of src/kernels/*/triton.py ahead of time, for GPUs of each compute capability below; no GPU is needed.

usage: compile_kernels.py FOLDER [--only OPERATOR] [--gpus CAPABILITY...]

Leaves in FOLDER kernels.bin, all binaries one after the other, and kernels.cpp, which holds them and lists them as
burnish::kernels::binaries(). Triton keeps what it has compiled in its own cache (TRITON_CACHE_DIR, or ~/.triton/cache), which all build
folders and checkouts share: all 1,106 kernels take 18 minutes of a core, those for --gpus 9.0 five. What triton.py's builds() yield: dtype, function, the types of its
arguments in Triton's words (*bf16:16 a pointer to bf16 at a multiple of 16 bytes, i32:16 a multiple of 16; a number is the constant that the
argument is), warps, and where Triton's own number does not do, the stages in which loads run ahead of a loop.
"""
import argparse
import importlib.util
import multiprocessing
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CAPABILITIES = (80, 86, 89, 90, 100, 120, 121)
PLANNED = 80  # of the GPU that a run is planned for where there is none (src/kernels/cuda_launch.cpp)
ALIGNMENT = 64  # of a binary in kernels.bin
PTX_BITS = {"pointer": 64, "i32": 32, "u32": 32, "fp32": 32}

SOURCE = """// Written by tools/compile_kernels.py.
#include "kernels/binary.h"

__asm__(R"(.pushsection .rodata
.balign {alignment}
.globl burnish_kernel_images
.hidden burnish_kernel_images
burnish_kernel_images:
.incbin "{images}"
.popsection)");

extern "C" const unsigned char burnish_kernel_images[];

namespace burnish::kernels {{

std::span<const Binary> binaries() {{
  static const Binary list[] = {{
{rows}
  }};
  return list;
}}

}}  // namespace burnish::kernels
"""


def load(path):
    if (folder := str(ROOT / "src/kernels")) not in sys.path:
        sys.path.append(folder)  # kernels share functions
    spec = importlib.util.spec_from_file_location(path.parent.name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def capabilities_for(gpus):
    """The capabilities whose kernels GPUs of these ("8.7", "9.0") run, as src/kernels/binary.cpp chooses, and the one of plans; of none: all."""
    if not gpus:
        return CAPABILITIES
    chosen = {PLANNED}
    for asked in (int(gpu.replace(".", "")) for gpu in gpus):
        chosen.update(sorted(c for c in CAPABILITIES if c == asked or (c < 90 and c // 10 == asked // 10 and c < asked))[-1:])
    return tuple(sorted(chosen))


def split(signature):
    """[(type, alignment or None, constant or None)] of an argument list."""
    arguments = []
    for word in (w.strip() for w in signature.split(",")):
        if word.lstrip("-").isdigit():
            arguments.append(("constexpr", None, int(word)))
        else:
            type_, _, alignment = word.partition(":")
            arguments.append((type_, int(alignment) if alignment else None, None))
    return arguments


def name_of(operator, dtype, function, arguments):
    """As the program asks for it: modulated_norm.forward.bf16.4096."""
    return ".".join([operator, function.__name__, dtype, *(str(constant) for _, _, constant in arguments if constant is not None)])


def described(names, arguments):
    """The argument list as the launcher reads it, "x:P rows:i": p a pointer, i an int32, u a uint32, f an fp32; in capitals a multiple of 16."""
    words = []
    for name, (type_, alignment, constant) in zip(names, arguments):
        if constant is None:
            letter = "p" if type_.startswith("*") else {"i32": "i", "u32": "u", "fp32": "f"}[type_]
            words.append(f"{name.removesuffix('_ptr')}:{letter.upper() if alignment == 16 else letter}")
    return " ".join(words)


def check_parameters(name, ptx, arguments):
    """The compiled function has to take what the launcher gives it: our arguments, then two pointers to scratch memory, which are null."""
    expected = ["pointer" if t.startswith("*") else t for t, _, constant in arguments if constant is None] + ["pointer"] * 2
    entry = re.search(r"\.visible \.entry \w+\((.*?)\)", ptx, re.S).group(1)
    found = [int(bits) for bits in re.findall(r"\.param \.[a-z](\d+)", entry)]
    if found != [PTX_BITS[type_] for type_ in expected]:
        raise SystemExit(f"{name}: the compiled kernel takes parameters of {found} bits, not {expected}; has Triton changed its hidden ones?")


def compile_for(target, path, build):
    """What Triton makes of one of builds() for a target of its own kind, with the build's name and arguments."""
    import triton
    from triton.compiler import ASTSource

    dtype, function, signature, warps, *stages = build
    arguments = split(signature)
    name = name_of(path.parent.name, dtype, function, arguments)
    if len(arguments) != len(function.arg_names):
        raise SystemExit(f"{name}: {len(function.arg_names)} arguments, and types of {len(arguments)}")
    source = ASTSource(fn=function, signature={n: t for n, (t, _, _) in zip(function.arg_names, arguments)},
                       constexprs={n: c for n, (_, _, c) in zip(function.arg_names, arguments) if c is not None},
                       attrs={(i,): [["tt.divisibility", a]] for i, (_, a, _) in enumerate(arguments) if a})
    options = {"num_warps": warps} | {"num_stages": count for count in stages}
    return name, arguments, triton.compile(source, target=target, options=options)


def compile_one(job):
    path, index, capability = job
    from triton.backends.compiler import GPUTarget

    build = list(load(path).builds())[index]
    _, function, _, warps, *_ = build
    name, arguments, compiled = compile_for(GPUTarget("cuda", capability, 32), path, build)
    metadata = compiled.metadata
    if metadata.global_scratch_size or metadata.profile_scratch_size:
        raise SystemExit(f"{name}: the kernel wants scratch memory, which the launcher does not give")
    check_parameters(name, compiled.asm["ptx"], arguments)
    return name, metadata.name, capability, warps, metadata.shared, described(function.arg_names, arguments), compiled.asm["cubin"]


def write(path, content):
    """Leaves a file that is as it should be alone, so that nothing is compiled again for it."""
    if not path.exists() or path.read_bytes() != content:
        path.write_bytes(content)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", type=pathlib.Path)
    p.add_argument("--only", metavar="OPERATOR")
    p.add_argument("--gpus", nargs="*", metavar="CAPABILITY", help="such GPUs alone, 8.9 for example")
    args = p.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
    paths = sorted(ROOT.glob(f"src/kernels/{args.only or '*'}/triton.py"))
    jobs = [(path, i, capability) for path in paths for i in range(len(list(load(path).builds()))) for capability in capabilities_for(args.gpus)]
    with multiprocessing.Pool(len(os.sched_getaffinity(0))) as pool:
        compiled = pool.map(compile_one, jobs, chunksize=1)
    rows, images = [], bytearray()
    for name, symbol, capability, warps, shared, arguments, image in sorted(compiled, key=lambda c: (c[0], c[2])):
        images.extend(b"\0" * (-len(images) % ALIGNMENT))
        rows.append(f'      {{"{name}", "{symbol}", {capability}, {warps}, {shared}, "{arguments}", burnish_kernel_images + {len(images)}, {len(image)}}},')
        images.extend(image)
    if len({row.split(", burnish")[0] for row in rows}) != len(rows):
        raise SystemExit("two kernels have one name: their constants have to tell them apart")
    write(args.folder / "kernels.bin", bytes(images))
    source = SOURCE.format(alignment=ALIGNMENT, images=args.folder.resolve() / "kernels.bin", rows="\n".join(rows))
    write(args.folder / "kernels.cpp", source.encode())
    print(f"{len(rows)} kernels, {len(images) / 1048576:.1f} MiB", file=sys.stderr)


if __name__ == "__main__":
    main()
