#!/usr/bin/env python3
"""Makes stubs of the CUDA half of libtorch, beside which a program that is linked to it runs where torch has none, as without a GPU.

usage: cuda_stubs.py PROGRAM TORCH FOLDER [--tools PREFIX]

PROGRAM is linked to libraries below TORCH, a torch folder with CUDA. Leaves in FOLDER stubs of libtorch_cuda.so and libc10_cuda.so, which stand
in the place of the real ones, and in FOLDER/runtime one of the CUDA runtime, for where there is none. A stub has the functions that PROGRAM
calls: there are no devices, the runtime says so too, and what asks for more than that ends the program. PREFIX is that of the compiler's tools
for another processor ("aarch64-linux-gnu-").
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


def symbols(nm, path, which):
    """{name: kind} of a library's or a program's symbols; `which` is --undefined-only or --defined-only."""
    lines = subprocess.run([nm, "-D", "--format=posix", which, path], check=True, capture_output=True, text=True).stdout.splitlines()
    return {line.split()[0].partition("@")[0]: line.split()[1] for line in lines}


def source(names, of_runtime):
    """C of a stub. Functions are called by the names that the linker knows."""
    parts = [HEAD]
    for number, name in enumerate(sorted(names)):
        returns, body = "void", f'end("{name}");'
        if of_runtime:
            returns, body = "int", f"return {NO_DEVICE};"
            if name == "cudaGetErrorString":
                returns, body = "const char*", 'return "no CUDA-capable device is detected";'
        elif name == DEVICE_COUNT:
            returns, body = "signed char", "return 0;"
        parts.append(f'{returns} stub{number}(void) __asm__("{name}");\n{returns} stub{number}(void) {{ {body} }}\n')
    return "".join(parts)


def make(args, library, needed, to, of_runtime=False):
    found = symbols(args.tools + "nm", library, "--defined-only")
    used = {name: found[name] for name in needed if name in found}
    if data := [name for name, kind in used.items() if kind not in "TWi"]:
        sys.exit(f"{args.program} reads data of {library.name}, which a stub cannot have: {', '.join(data)}")
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
    needed = symbols(args.tools + "nm", args.program, "--undefined-only")
    counts = [make(args, args.torch / "lib" / name, needed, args.folder / name) for name in ("libtorch_cuda.so", "libc10_cuda.so")]
    runtime = next(args.torch.parent.glob("nvidia/*/lib/libcudart.so.*"))
    counts.append(make(args, runtime, needed, args.folder / "runtime" / runtime.name, of_runtime=True))
    print(f"stubs of {sum(counts)} functions", file=sys.stderr)


if __name__ == "__main__":
    main()
