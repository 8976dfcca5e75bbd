"""Tests of check_rooms.py: each builds a small checkout that breaks one law."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import check_rooms

TABLE = ("base:\nio: base\nmodels/text: base\nmodels/model: base\nmodels/families/*: models/model models/text\n"
         "models: models/model models/families/*\ntrain: base io models/model\n")
TREE = {
    "tools/rooms.txt": TABLE,
    "src/base/error.h": "#pragma once\n",
    "src/io/file.h": '#include <vector>\n#include "base/error.h"\n',
    "src/models/model/family.h": '#include "base/error.h"\n',
    "src/models/text/clip.h": '#include "base/error.h"\n',
    "src/models/families/flux/config.h": '#include "models/model/family.h"\nstruct FluxConfig {};\n',
    "src/models/families/flux/family.cpp": '#include "models/families/flux/config.h"\n#include "models/text/clip.h"\nconst char* kName = "FLUX.1";\n',
    "src/models/families/wan/config.h": "struct WanConfig {};\n",
    "src/models/families/wan/family.cpp": '#include "models/families/wan/config.h"\n',
    "src/models/registry.cpp": '#include "models/model/family.h"\n',
    "src/train/run/loop.cpp": '#include "base/error.h"\n#include "io/file.h"\n#include "models/model/family.h"\n',
    "src/train/step/step.cpp": '#include "io/file.h"\n#include "models/model/family.h"\n// The order of FLUX.1\'s own loop.\nint wanted = 1;\n',
}


class CheckRooms(unittest.TestCase):
    def problems(self, changes):
        """What the checker says of the tree with some files added or replaced."""
        with tempfile.TemporaryDirectory() as folder:
            for path, text in {**TREE, **changes}.items():
                file = Path(folder, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
            return [str(problem) for problem in check_rooms.check(Path(folder))]

    def assert_one(self, changes, where, *words):
        problems = self.problems(changes)
        self.assertEqual(len(problems), 1, problems)
        self.assertTrue(problems[0].startswith(where + ":"), problems[0])
        for word in words:
            self.assertIn(word, problems[0])

    def test_a_lawful_tree_has_no_problems(self):
        self.assertEqual(self.problems({}), [])

    def test_upward_include(self):
        self.assert_one({"src/io/other.h": '\n#include "train/step/step.h"\n', "src/train/step/step.h": ""}, "src/io/other.h:2", "io may not include room train")

    def test_include_of_a_nested_room_that_is_not_listed(self):
        self.assert_one({"src/train/step/step.cpp": '#include "models/text/clip.h"\n'}, "src/train/step/step.cpp:1", "models/text")

    def test_cycle_in_the_table_is_named(self):
        problems = self.problems({"tools/rooms.txt": TABLE.replace("base:\n", "base: train\n")})
        self.assertTrue(any("cycle: base -> train -> base" in problem for problem in problems), problems)

    def test_room_that_lists_itself(self):
        problems = self.problems({"tools/rooms.txt": TABLE.replace("io: base", "io: base io")})
        self.assertTrue(any("cycle: io -> io" in problem for problem in problems), problems)

    def test_room_listed_before_its_row(self):
        changes = {"tools/rooms.txt": "early: base\n" + TABLE, "src/early/a.h": ""}
        self.assert_one(changes, "rooms.txt:1", "early lists base, which is not above it")

    def test_unknown_room_in_the_table(self):
        changes = {"tools/rooms.txt": TABLE + "app: train helpers\n", "src/app/main.cpp": '#include "train/step/step.h"\n', "src/train/step/step.h": ""}
        self.assert_one(changes, "rooms.txt:8", "helpers")

    def test_two_rows_of_one_room(self):
        self.assert_one({"tools/rooms.txt": TABLE + "io: base\n"}, "rooms.txt:8", "two rows")

    def test_circle_of_modules(self):
        header, source = '#include "io/file.h"\n', '#include "io/disk.h"\n#include "base/error.h"\n'
        circle = {"src/io/disk.h": header, "src/io/file.cpp": '#include "io/file.h"\n' + source}
        self.assert_one(circle, "src/io/disk", "circle: io/disk -> io/file -> io/disk")
        self.assert_one(circle | {"src/io/file.cpp": source, "src/io/disk.h": "", "src/io/disk.cpp": header}, "src/io/disk", "circle: io/disk -> io/file")
        self.assertEqual(self.problems(circle | {"src/io/disk.h": ""}), [], "both arrows make the circle")
        self.assertEqual(self.problems(circle | {"src/io/disk.h": "// " + header}), [], "a comment is no arrow")

    def test_each_circle_is_named_once_and_as_short_as_it_is(self):
        names = "abcd"
        ring = {f"src/io/{a}.h": f'#include "io/{b}.h"\n' for a, b in zip(names, names[1:] + names[0])}
        self.assert_one(ring, "src/io/a", "circle: io/a -> io/b -> io/c -> io/d -> io/a")
        self.assert_one(ring | {"src/io/b.cpp": '#include "io/a.h"\n'}, "src/io/a", "circle: io/a -> io/b -> io/a")
        two = {f"src/io/{a}.h": f'#include "io/{b}.h"\n' for a, b in ("ab", "ba", "cd", "dc")}
        self.assertEqual(len(self.problems(two)), 2)

    def test_modules_of_a_nested_room_are_another_rooms(self):
        changes = {"src/models/model/family.cpp": '#include "models/text/clip.h"\n', "src/models/text/clip.cpp": '#include "models/model/family.h"\n'}
        problems = self.problems(changes)
        self.assertEqual([p for p in problems if "circle" in p], [])
        self.assertTrue(any("models/text may not include room models/model" in p for p in problems), problems)

    def test_arrow_that_no_include_uses(self):
        changes = {"tools/rooms.txt": TABLE.replace("base io models/model", "base io models/text models/model")}
        self.assert_one(changes, "rooms.txt:7", "train lists models/text, which none of its files includes")
        self.assert_one({"src/io/file.h": "// #include \"base/error.h\"\n"}, "rooms.txt:2", "io lists base")

    def test_room_without_files(self):
        self.assert_one({"tools/rooms.txt": TABLE + "app:\n"}, "rooms.txt:8", "room app has no files")

    def test_word_that_is_kept_below_paths(self):
        table = {"tools/rooms.txt": TABLE + "! cuda: io/ train/run/loop.cpp  # why\n",
                 "src/io/file.h": '#include "base/error.h"\nint cuda_streams;\n',
                 "src/train/run/loop.cpp": '#include "base/error.h"\n#include "io/file.h"\n#include "models/model/family.h"\nconst char* kDevice = "CUDA";\n'}
        self.assertEqual(self.problems({**table, "src/train/plan.cpp": "// As CUDA counts.\n"}), [])
        self.assert_one({**table, "src/train/plan.cpp": "\nbool b = device.is_cuda();\n"}, "src/train/plan.cpp:2", "says 'cuda'")
        self.assert_one({**table, "src/io/file.h": '#include "base/error.h"\n'}, "rooms.txt:8", "nothing below io/ says 'cuda'")
        self.assert_one({"tools/rooms.txt": TABLE + "! cuda\n"}, "rooms.txt:8", "! word: paths")

    def test_line_that_is_no_row(self):
        self.assert_one({"tools/rooms.txt": TABLE + "app train\n"}, "rooms.txt:8", "app train")

    def test_file_outside_every_room(self):
        self.assert_one({"src/utils/text.h": ""}, "src/utils/text.h", "no room")
        self.assert_one({"src/main.cpp": ""}, "src/main.cpp", "no room")

    def test_relative_includes(self):
        self.assert_one({"src/io/other.h": '#include "file.h"\n'}, "src/io/other.h:1", "full path")
        self.assert_one({"src/io/other.h": '#include "../base/error.h"\n'}, "src/io/other.h:1", "full path")
        self.assert_one({"src/io/other.h": '#  include "./io/file.h"\n'}, "src/io/other.h:1", "full path")

    def test_include_of_a_missing_file(self):
        self.assert_one({"src/io/other.h": '#include "base/gone.h"\n'}, "src/io/other.h:1", "base/gone.h")

    def test_project_header_in_angle_brackets(self):
        self.assert_one({"src/io/other.h": "#include <base/error.h>\n"}, "src/io/other.h:1", "quotes")

    def test_leaked_family_name(self):
        for text in ("struct FluxOptions {};", 'const char* mode = "FLUX-like";', "bool isFLUXDev;", "int x = num_flux_blocks;", "auto t = R\"(a\nflux)\";"):
            problems = self.problems({"src/train/options/options.h": text + "\n"})
            self.assertEqual(len(problems), 1, (text, problems))
            self.assertIn("names the family flux", problems[0])

    def test_short_family_names_are_found_as_words(self):
        self.assert_one({"src/io/other.h": "struct WanOptions {};\n"}, "src/io/other.h:1", "family wan")
        self.assert_one({"src/io/other.h": 'auto s = "wan2.1";\n'}, "src/io/other.h:1", "family wan")
        self.assertEqual(self.problems({"src/io/other.h": "int wanted; int unwanted; int swan;\n"}), [])

    def test_family_name_after_a_comment_mark_in_a_string(self):
        self.assert_one({"src/io/other.h": 'auto s = "//"; int flux = 1;\n'}, "src/io/other.h:1", "family flux")

    def test_comments_may_cite_a_family(self):
        self.assertEqual(self.problems({"src/io/other.h": "/* FLUX.1\n flux */ int x;  // flux\n"}), [])

    def test_family_of_two_words(self):
        changes = {"src/models/families/qwen_image/family.cpp": "", "src/io/other.h": "struct QwenImageVae {};\n"}
        self.assert_one(changes, "src/io/other.h:1", "family qwen_image")

    def test_family_whose_name_has_anothers_in_it(self):
        changes = {"src/models/families/flux2/family.cpp": "namespace flux2 {}\n"}
        self.assertEqual(self.problems(changes), [])
        self.assert_one(changes | {"src/models/families/flux2/model.h": '#include "models/families/flux/config.h"\n'}, "src/models/families/flux2/model.h:1", "belongs to a family")

    def test_words_of_other_programs(self):
        changes = {"tools/rooms.txt": TABLE + "@ flux_shift  # a mode of another program\n", "src/io/other.h": 'auto s = "flux_shift";\n'}
        self.assertEqual(self.problems(changes), [])
        self.assert_one(changes | {"src/io/other.h": "int flux_shifts;\n"}, "src/io/other.h:1", "family flux")

    def test_strings_of_other_programs_may_spell_a_family(self):
        changes = {"tools/rooms.txt": TABLE + "foreign: base\n", "src/foreign/other.h": '#include "base/error.h"\nauto s = "flux_train";\n'}
        self.assertEqual(self.problems(changes), [])
        changes["src/foreign/other.h"] += "int flux_shifts;  // of FLUX.1\n"
        self.assert_one(changes, "src/foreign/other.h:3", "family flux")
        self.assert_one({"src/io/other.h": 'auto s = "flux_train";\n'}, "src/io/other.h:1", "family flux")

    def test_ordinary_words_that_spell_a_family(self):
        changes = {"tools/rooms.txt": TABLE + "~ influx  # no family\n", "src/io/other.h": "int influx_of_tokens; struct Influxes {};\n"}
        self.assertEqual(self.problems(changes), [])
        self.assert_one(changes | {"src/io/other.h": "int influx, flux;\n"}, "src/io/other.h:1", "family flux")

    def test_one_family_includes_another(self):
        problems = self.problems({"src/models/families/wan/config.h": '#include "models/families/flux/config.h"\n'})
        self.assertTrue(any("belongs to a family" in problem for problem in problems), problems)

    def test_exit_status_and_output(self):
        with tempfile.TemporaryDirectory() as folder:
            for path, text in {"tools/rooms.txt": "base:\n", "src/base/a.h": '#include "b.h"\n'}.items():
                Path(folder, path).parent.mkdir(parents=True, exist_ok=True)
                Path(folder, path).write_text(text)
            done = subprocess.run([sys.executable, check_rooms.__file__, folder], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn("src/base/a.h:1", done.stdout)
            Path(folder, "src/base/b.h").touch()
            Path(folder, "src/base/a.h").write_text('#include "base/b.h"\n')
            self.assertEqual(subprocess.run([sys.executable, check_rooms.__file__, folder]).returncode, 0)


if __name__ == "__main__":
    unittest.main()
