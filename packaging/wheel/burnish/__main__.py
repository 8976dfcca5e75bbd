"""Starts the native program: finds torch, and pyarrow where it is, without importing them, which would take seconds."""
import importlib.util
import os
import pathlib
import re
import sys

PROGRAMS = pathlib.Path(__file__).parent / "bin"


def programs():
    """By the version of torch, the folder of the programs that are for it, the one that burnish is measured with first."""
    return {folder.name.partition("-")[2]: folder for folder in sorted(PROGRAMS.glob("torch-*"))}


def torch_and_programs():
    """The folder of the torch that this Python would import, and of the programs for it; ends with a sentence where none is."""
    known = programs()
    versions, first = " or ".join(known), next(iter(known))
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f"[burnish] torch {versions} is needed and not installed; pip install torch=={first}")
    folder = pathlib.Path(next(iter(spec.submodule_search_locations)))
    found = re.search(r"__version__ = '([^'+]+)", (folder / "version.py").read_text())
    if not found or found.group(1) not in known:
        sys.exit(f"[burnish] torch {found.group(1) if found else 'of no version'} is installed, and burnish is built for {versions}; "
                 f"pip install torch=={first}")
    return folder, known[found.group(1)]


def main():
    torch, programs_for_it = torch_and_programs()
    paths = [str(torch / "lib"), *map(str, torch.parent.glob("nvidia/*/lib"))]
    # The program is linked to the CUDA half of libtorch. Beside a torch without it, or without the libraries that half needs, stubs stand there.
    has_cuda = (torch / "lib/libtorch_cuda.so").exists() and any(torch.parent.glob("nvidia/*/lib/libcublas.so*"))
    stubs = programs_for_it / "stubs"
    if not has_cuda and stubs.exists():
        paths = [str(stubs), *paths, str(stubs / "runtime")]
    arrow = importlib.util.find_spec("pyarrow")  # its libraries read Parquet files
    if arrow is not None and arrow.submodule_search_locations:
        paths.append(next(iter(arrow.submodule_search_locations)))
    if os.environ.get("LD_LIBRARY_PATH"):
        paths.append(os.environ["LD_LIBRARY_PATH"])
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(paths)
    os.execv(programs_for_it / "burnish", ["burnish", *sys.argv[1:]])


if __name__ == "__main__":
    main()
