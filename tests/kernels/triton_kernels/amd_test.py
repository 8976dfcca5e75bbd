"""Every function of the kernels compiles for AMD's GPUs as well: what NVIDIA's alone have stays out of them."""
import os
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "tools"))

import compile_kernels  # noqa: E402  (below the path that it lies in)

TARGETS = {"gfx942": 64, "gfx1201": 32}  # MI300, RX 9070: their threads that go together


class CompileForAmd(unittest.TestCase):
    def setUp(self):
        cache = tempfile.TemporaryDirectory()
        self.addCleanup(cache.cleanup)
        os.environ["TRITON_CACHE_DIR"] = cache.name

    def test_every_function_once(self):
        from triton.backends.compiler import GPUTarget

        compiled = set()
        for path in sorted(ROOT.glob("src/kernels/*/triton.py")):
            for build in compile_kernels.load(path).builds():
                dtype, function, *_ = build
                for arch, threads in TARGETS.items():
                    key = (path.parent.name, function.__name__, dtype, arch)
                    if key in compiled:
                        continue
                    compiled.add(key)
                    with self.subTest(key):
                        binary = compile_kernels.compile_for(GPUTarget("hip", arch, threads), path, build)[2].asm["hsaco"]
                        self.assertEqual(binary[:4], b"\x7fELF")
        self.assertGreater(len(compiled), 2 * len(list(ROOT.glob("src/kernels/*/triton.py"))))

