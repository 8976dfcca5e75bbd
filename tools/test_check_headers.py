"""Tests of check_headers.py."""
import unittest
from pathlib import Path

from check_headers import code_of, compile_alone, flags_for, flags_of, room_of


class Flags(unittest.TestCase):
    def test_launcher_source_output_and_precompiled_header_are_left_out(self):
        command = "env A=1 ccache /usr/bin/c++ -DX -Isrc -O2 -Winvalid-pch -include /b/cmake_pch.hxx -include own.h -o a.o -c src/a.cpp"
        self.assertEqual(flags_of(command), ["/usr/bin/c++", "-DX", "-Isrc", "-O2", "-include", "own.h"])

    def test_a_header_is_compiled_as_the_nearest_room(self):
        found = {"io": ["io"], "train_run": ["run"], "data": ["data"], "app": ["app"]}
        for header, flags in (("train/run/hooks/a.h", "run"), ("io/a.h", "io"), ("data/a.h", "data"), ("nn/a.h", "app")):
            self.assertEqual(flags_for(Path(header), found), [flags], header)

    def test_a_companion_is_no_room(self):
        self.assertEqual(room_of("c++ -o CMakeFiles/room_train_run.dir/Unity/unity_0_cxx.cxx.o -c u.cxx"), "train_run")
        self.assertIsNone(room_of("c++ -o CMakeFiles/burnish_clips.dir/data/ffmpeg_clips.cpp.o -c src/data/ffmpeg_clips.cpp"))


class Changed(unittest.TestCase):
    def test_comments_are_no_code(self):
        self.assertEqual(code_of("/// One.\nint x;  ///< a\n"), code_of("/// Another.\n\nint x;\n"))
        self.assertNotEqual(code_of("int x;\n"), code_of("int y;\n"))


class Alone(unittest.TestCase):
    def test_a_header_that_needs_another_before_it_is_named(self):
        self.assertIsNone(compile_alone(Path("base/no_such.h").with_name("text.h"), ["g++", "-std=c++20", "-Isrc"]))
        self.assertIn("src/base/no_such.h: does not compile alone", str(compile_alone(Path("base/no_such.h"), ["g++", "-std=c++20", "-Isrc"])))


if __name__ == "__main__":
    unittest.main()
