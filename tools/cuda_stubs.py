#!/usr/bin/env python3
"""Makes stubs of the CUDA half of libtorch, beside which a program that is linked to it runs where torch has none, as without a GPU.

usage: cuda_stubs.py PROGRAM TORCH FOLDER [--tools PREFIX]

PROGRAM is linked to libraries below TORCH, a torch folder with CUDA. Leaves in FOLDER stubs of libtorch_cuda.so and libc10_cuda.so, which stand
in the place of the real ones, and in FOLDER/runtime one of the CUDA runtime, for where there is none. A stub has the functions that PROGRAM
calls: there are no devices, the runtime says so too, and what asks for more than that ends the program. Its data are zeros. PREFIX is that of the
compiler's tools for another processor ("aarch64-linux-gnu-").
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

DEVICE_COUNT = "_ZN3c104cuda12device_countEv"  # signed char c10::cuda::device_count()
NO_DEVICE = 100  # cudaErrorNoDevice

HEAD = """#include <stdio.h>
#include <stdlib.h>
static void end(const char* name) {
  fprintf(stderr, "[burnish] %s: this torch has no CUDA\\n", name);
  abort();
}
"""


def symbols(nm, path, *which):
    """{name: (kind, bytes)} of a library's or a program's symbols."""
    lines = subprocess.run([nm, "-D", "--format=posix", *which, path], check=True, capture_output=True, text=True).stdout.splitlines()
    words = [line.split() for line in lines]
    return {w[0].partition("@")[0]: (w[1], int(w[3], 16) if len(w) > 3 else 0) for w in words}


def source(used, of_runtime):
    """C of a stub with these symbols, which go by the names that the linker knows."""
    parts = [HEAD]
    for number, (name, (kind, size)) in enumerate(sorted(used.items())):
        if kind not in "TWi":
            parts.append(f'extern char stub{number}[{size}] __asm__("{name}");\nchar stub{number}[{size}] __attribute__((aligned(16)));\n')
            continue
        returns, body = ("int", f"return {NO_DEVICE};") if of_runtime else ("void", f'end("{name}");')
        if name == "cudaGetErrorString":
            returns, body = "const char*", 'return "no CUDA-capable device is detected";'
        elif name == DEVICE_COUNT:
            returns, body = "signed char", "return 0;"
        parts.append(f'{returns} stub{number}(void) __asm__("{name}");\n{returns} stub{number}(void) {{ {body} }}\n')
    return "".join(parts)


def copied(readelf, program):
    """Names of data that the loader copies from a library into the program, which is linked as if it were its own."""
    lines = subprocess.run([readelf, "-rW", program], check=True, capture_output=True, text=True).stdout.splitlines()
    return {line.split()[4].partition("@")[0] for line in lines if "_COPY" in line}


def make(args, library, wanted, to, of_runtime=False):
    used = {name: found for name, found in symbols(args.tools + "nm", library, "--defined-only").items() if name in wanted}
    to.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        (work / "stub.c").write_text(source(used, of_runtime))
        options = [f"-Wl,-soname,{library.name}"]
        if of_runtime:  # the program asks for a version of its functions
            (work / "versions").write_text(f"{library.name} {{ global: *; }};\n")
            options.append(f"-Wl,--version-script={work}/versions")
        subprocess.run([args.tools + "gcc", "-shared", "-fPIC", "-O1", "-s", *options, "-o", to, work / "stub.c"], check=True)
    return len(used)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("program", type=pathlib.Path)
    p.add_argument("torch", type=pathlib.Path)
    p.add_argument("folder", type=pathlib.Path)
    p.add_argument("--tools", default="", metavar="PREFIX")
    args = p.parse_args()
    wanted = {*symbols(args.tools + "nm", args.program, "--undefined-only"), *copied(args.tools + "readelf", args.program)}
    for name in ("libtorch_cpu.so", "libc10.so"):  # which are there
        wanted -= set(symbols(args.tools + "nm", args.torch / "lib" / name, "--defined-only"))
    counts = [make(args, args.torch / "lib" / name, wanted, args.folder / name) for name in ("libtorch_cuda.so", "libc10_cuda.so")]
    runtime = next(args.torch.parent.glob("nvidia/*/lib/libcudart.so.*"))
    counts.append(make(args, runtime, wanted, args.folder / "runtime" / runtime.name, of_runtime=True))
    print(f"stubs of {sum(counts)} functions and data", file=sys.stderr)


if __name__ == "__main__":
    main()
