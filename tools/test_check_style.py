"""Tests of check_style.py."""
import tempfile
import unittest
from pathlib import Path

from check_style import EXCEPTIONS, MAX_PIPELINE_BYTES, check, check_code, check_decisions, check_page, check_pipelines, class_sizes, classes_of, function_lengths


def lines(count):
    return "  x = 1;\n" * count


def class_of(num_methods, num_fields):
    return "class A {\n" + "int x{};\n" * num_fields + "void f();\n" * num_methods + "};\n"


class FunctionLengths(unittest.TestCase):
    def test_functions_inside_scopes_are_found(self):
        text = "namespace a {\nstruct B {\n  int f() const {\n    return 1;\n  }\n};\nint g(int x) {\n  if (x) {\n    return 2;\n  }\n  return 3;\n}\n}\n"
        self.assertEqual(function_lengths(text), [(3, 3), (7, 6)])

    def test_braces_in_literals_comments_and_macros_do_not_count(self):
        text = "int f() {\n  s = \"{\"; // {\n  c = '{'; /* { */\n  r = R\"({)\";\n#define M {\n}\nint g() {\n}\n"
        self.assertEqual(function_lengths(text), [(1, 6), (7, 2)])

    def test_digit_separators_are_no_literals(self):
        self.assertEqual(function_lengths("int f() {\n  return 1'000'000;\n}\nint g() {\n  return 10'000;\n}\n"), [(1, 3), (4, 3)])

    def test_tables_are_no_functions(self):
        self.assertEqual(function_lengths("const std::map<int, int> kTable = {\n  {1, 2},\n};\n"), [])

    def test_constructor_with_initialisers(self):
        self.assertEqual(sum(length for _, length in function_lengths("A::A() : x_(1), y_{2}, z_(3) {\n" + lines(5) + "}\n")[-1:]), 7)


class Prints(unittest.TestCase):
    def test_words_go_through_one_door(self):
        for text in ("fmt::print(stderr, x);\n", "std::cerr << x;\n", "std::printf(x);\n"):
            self.assertIn("prints by itself", str(check_code("src/app/a.cpp", text, False)))
            self.assertEqual(check_code("tests/a_test.cpp", text, False), [])
            self.assertEqual(check_code("src/base/say.h", "#pragma once\n" + text, True), [])
        self.assertEqual(check_code("src/app/a.cpp", "print(x);\nstd::snprintf(x);\n", False), [])


class ClassSizes(unittest.TestCase):
    def sizes(self, text):
        return [size[1:] for size in class_sizes(text)]

    def members(self, body):
        """(data members, functions) of a class with this body."""
        [(_, fields, methods)] = self.sizes("class A final : public B<C, D> {\n" + body + "\n};\n")
        return fields, methods

    def test_data_members(self):
        self.assertEqual(self.members("int a, b = 1, c[2];\nstd::map<int, std::string> d, e{{1, \"x, y; }\"}};"), (5, 0))
        self.assertEqual(self.members("std::function<void(int, int)> f = [](int, int) { g(); };\nint (*p)(int, int);\nbool x = f(1, 2);"), (3, 0))
        self.assertEqual(self.members("private:\n  [[maybe_unused]] mutable at::Tensor a_;  // int not_me;\n  alignas(64) float b_[4] = {1, 2};"), (2, 0))

    def test_functions(self):
        self.assertEqual(self.members("A();\nint f() const { if (x) { return y; } return 1; }\nvirtual void g(int a = h(), B b = {}) = 0;"), (0, 3))
        self.assertEqual(self.members("explicit A(int x) : B{x}, a_(f(1, 2)), b_{g(2)} { h(); }\nvoid next();"), (0, 2))
        self.assertEqual(self.members("template <class T>\nT f(const T& x);\nbool operator<(const A&) const;\nfriend bool g(A);\nstatic A make();"), (0, 3))
        self.assertEqual(self.members("std::pair<int, int> f(std::function<int(int)> g) override;\nauto h() -> int { return 1; }"), (0, 2))

    def test_what_does_not_count(self):
        self.assertEqual(self.members("A(const A&) = delete;\n~A() = default;\nusing T = int;\nenum class E { a, b };\nstruct Forward;"), (0, 0))
        self.assertEqual(self.members("static constexpr int kA = 1, kB = f(2);\nstatic const int kC = 3;\nstatic_assert(sizeof(int) == 4);"), (0, 0))

    def test_a_class_inside_counts_for_itself(self):
        self.assertEqual(self.sizes("class A {\n  struct B { int x, y; void f(); };\n  B b;\n  void g();\n};\n"), [("A", 1, 1), ("B", 2, 1)])

    def test_what_is_no_class(self):
        self.assertEqual(self.sizes("enum class E { a, b };\ntemplate <class T> void f(T t) { g(t); }\nstruct A a = {1};\nstruct B;\n"), [])

    def test_limits(self):
        self.assertEqual(check_code("a.cpp", "struct Options {\n" + "int x{};\n" * 13 + "};\n", False), [])
        self.assertEqual(check_code("a.cpp", class_of(22, 10), False), [])
        [found] = check_code("a.cpp", "\n" + class_of(1, 11), False)
        self.assertEqual(str(found), "a.cpp:2: A has 11 data members and 1 functions; it may have at most 10 and 22")
        self.assertIn("23 functions", str(check_code("a.cpp", class_of(23, 0), False)[0]))


class ClassExceptions(unittest.TestCase):
    def problems(self, exceptions, **classes):
        """What the checker says of a checkout with this list, and with classes A of these sizes in the folders src/<name>."""
        with tempfile.TemporaryDirectory() as folder:
            files = {EXCEPTIONS: exceptions} | {f"src/{name}/a.cpp": class_of(*size) for name, size in classes.items()}
            for path, text in files.items():
                Path(folder, path).parent.mkdir(parents=True, exist_ok=True)
                Path(folder, path).write_text(text)
            return [str(problem) for problem in check(Path(folder))]

    def assert_one(self, problems, *words):
        self.assertEqual(len(problems), 1, problems)
        for word in words:
            self.assertIn(word, problems[0])

    def test_a_class_may_have_what_it_is_granted_and_no_more(self):
        self.assertEqual(self.problems("# why\nA: 24 12  # more\n", io=(24, 12)), [])
        self.assert_one(self.problems("A: 24 12\n", io=(25, 12)), "src/io/a.cpp:1", "at most 12 and 24")
        self.assert_one(self.problems("A: 24 12\n", io=(24, 13)), "src/io/a.cpp:1", "13 data members")
        self.assertEqual(self.problems("A: 22 12\n", io=(3, 12)), [], "the law's own number where only the other is larger")

    def test_an_exception_that_is_larger_than_need_be(self):
        self.assert_one(self.problems("A: 24 12\n", io=(24, 11)), EXCEPTIONS + ":1", "write 'A: 24 11'")
        self.assert_one(self.problems("\nA: 24 12\n", io=(5, 12)), EXCEPTIONS + ":2", "write 'A: 22 12'")
        self.assert_one(self.problems("A: 24 12\n", io=(22, 10)), EXCEPTIONS + ":1", "no class A is larger")
        self.assert_one(self.problems("A: 24 12\nB: 23 10\n", io=(24, 12)), EXCEPTIONS + ":2", "no class B")

    def test_a_name_with_its_folder(self):
        self.assertEqual(self.problems("io::A: 24 10\n", io=(24, 1), data=(22, 1)), [])
        self.assert_one(self.problems("io::A: 24 10\n", io=(24, 1), data=(24, 1)), "src/data/a.cpp:1")
        self.assertEqual(len(self.problems("o::A: 24 10\n", io=(24, 1))), 2, "a part of a folder's name is no folder")

    def test_a_line_that_is_none(self):
        self.assert_one(self.problems("A: 24\n", io=(1, 1)), EXCEPTIONS + ":1", "Name: methods fields", "'A: 24'")


class Bases(unittest.TestCase):
    def problems(self, text):
        known = {}
        for size in classes_of("src/io/a.h", text):
            known.setdefault(size.name, []).append(size)
        return [str(problem) for problem in check_code("src/io/a.h", "#pragma once\n" + text, True, (), known)]

    def test_members_of_bases_count(self):
        base = "struct Sizes {\n" + "int x{};\n" * 6 + "};\n"
        self.assertEqual(self.problems(base + "struct A : public io::Sizes {\n" + "int y{};\n" * 4 + "void f();\n};\n"), [])
        [found] = self.problems(base + "struct A : public io::Sizes {\n" + "int y{};\n" * 5 + "void f();\n};\n")
        self.assertIn("A has 11 data members and 1 functions", found)
        [found] = self.problems(base + "struct More : Sizes {\n" + "int z{};\n" * 5 + "};\nstruct A : More {\nvoid f();\n};\n")
        self.assertIn("A has 11 data members", found)

    def test_two_of_one_name_that_are_bases_of_another_end(self):
        self.assertEqual(self.problems("struct A : io::B {\n};\nstruct B : data::A {\n};\n"), [])

    def test_functions_of_a_base_make_fields_of_a_class(self):
        [found] = self.problems("struct Sizes {\nint f();\n};\nstruct A : Sizes {\n" + "int y{};\n" * 11 + "};\n")
        self.assertIn("A has 11 data members and 1 functions", found)

    def test_an_interface_and_a_class_of_elsewhere_are_no_members(self):
        interface = "struct Block {\nvirtual void run();\n" + "int x{};\n" * 6 + "};\n"
        self.assertEqual(self.problems(interface + "struct A : Block, std::exception {\n" + "int y{};\n" * 8 + "void run() override;\n};\n"), [])


class CheckCode(unittest.TestCase):
    def test_limits(self):
        self.assertEqual(check_code("a.cpp", "int f() {\n" + lines(58) + "}\n", False), [])
        self.assertIn("61 lines", str(check_code("a.cpp", "int f() {\n" + lines(59) + "}\n", False)[0]))
        self.assertIn("801 lines", str(check_code("a.cpp", "\n" * 801, False)[0]))

    def test_a_long_function_has_what_its_file_is_granted(self):
        text = "int f() {\n" + lines(70) + "}\nint g() {\n" + lines(60) + "}\n"

        def problems(*granted):
            return [str(problem) for problem in check_code("a.cpp", text, False, (), None, {"a.cpp": list(granted)})]

        self.assertEqual(problems(72, 62), [])
        self.assertEqual(problems(71, 62), ["a.cpp:1: a function of 72 lines; it has at most 71"])
        self.assertEqual(problems(72), ["a.cpp:73: a function of 62 lines; it has at most 60"])
        self.assertIn("write 'a.cpp: 72 62'", problems(90, 62)[0])
        self.assertIn("write 'a.cpp: 72 62'", problems(72, 62, 61)[0])

    def test_headers(self):
        self.assertIn("pragma once", str(check_code("a.h", "int x;\n", True)[0]))
        self.assertIn("torch/torch.h", str(check_code("a.h", "#pragma once\n#include <torch/torch.h>\n", True)[0]))

    def test_dear_headers_are_for_few(self):
        for header, may, must_not in (("toml++/toml.h", "src/config/settings.cpp", "src/app/new.cpp"), ("ATen/ATen.h", "tests/golden.h", "src/nn/a.cpp"),
                                      ("spdlog/spdlog.h", "src/base/log.cpp", "src/data/a.cpp")):
            text = f"#pragma once\n#include <{header}>\n"
            self.assertEqual(check_code(may, text, False), [])
            [problem] = check_code(must_not, text, False)
            self.assertIn(f"{must_not}:2: includes {header}", str(problem))
        self.assertEqual(check_code("src/app/new.cpp", "// #include <toml++/toml.h>\n#include <ATen/ops/cat.h>\n", False), [])


class CheckPage(unittest.TestCase):
    def test_long_lines(self):
        [found] = check_page("docs/a.md", "short\n" + "é" * 140 + "\n" + "a " * 71 + "\n")
        self.assertEqual(str(found), "docs/a.md:3: 142 columns; a line of a page has at most 140")

    def test_tables_and_blocks_may_be_wide(self):
        self.assertEqual(check_page("a.md", "| " + "a" * 200 + " |\n```\n" + "b" * 200 + "\n```\n"), [])
        self.assertEqual(len(check_page("a.md", "```\nb\n```\n" + "b" * 200 + "\n")), 1)


class CheckDecisions(unittest.TestCase):
    def problems(self, rows, **pages):
        with tempfile.TemporaryDirectory() as root:
            folder = Path(root, "docs/decisions")
            folder.mkdir(parents=True)
            (folder / "README.md").write_text("# Decisions\n" + rows)
            for name, text in pages.items():
                (folder / f"{name[1:]}.md").write_text(text)
            return [str(problem) for problem in check_decisions(Path(root))]

    def test_every_page_has_a_row(self):
        self.assertEqual(self.problems("| [0001](0001.md) | why |\n", _0001="# 0001\n"), [])
        [found] = self.problems("| [0001](0001.md) | why |\n", _0001="# 0001\n", _0002="# 0002\n")
        self.assertEqual(found, "docs/decisions/0002.md: docs/decisions/README.md has no row for this page")
        [found] = self.problems("| [0001](0001.md) | why |\n")
        self.assertIn("no page 0001.md", found)

    def test_what_is_replaced_is_marked(self):
        page = "# 0001\n\nReplaced by [0002](0002.md).\n"
        [found] = self.problems("| [0001](0001.md) | why |\n", _0001=page)
        self.assertIn("begins with 'Replaced by 0002'", found)
        self.assertEqual(self.problems("| [0001](0001.md) | Replaced by 0002: why |\n", _0001=page), [])


class CheckPipelines(unittest.TestCase):
    def test_a_folder_counts_with_all_below_it(self):
        with tempfile.TemporaryDirectory() as folder:
            golden = Path(folder) / "tests/golden"
            for name, size in (("small_pipeline/model", MAX_PIPELINE_BYTES), ("large_pipeline/model", MAX_PIPELINE_BYTES + 1), ("other", MAX_PIPELINE_BYTES + 1)):
                (golden / name).mkdir(parents=True)
                (golden / name / "weights").write_bytes(bytes(size))
            [found] = check_pipelines(Path(folder))
        self.assertEqual(str(found), "tests/golden/large_pipeline: 1500001 bytes; a golden pipeline has at most 1500000")


if __name__ == "__main__":
    unittest.main()
