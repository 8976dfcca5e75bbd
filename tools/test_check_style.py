"""Tests of check_style.py."""
import unittest

from check_style import check_code, function_lengths


def lines(count):
    return "  x = 1;\n" * count


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


class CheckCode(unittest.TestCase):
    def test_limits(self):
        self.assertEqual(check_code("a.cpp", "int f() {\n" + lines(98) + "}\n", False), [])
        self.assertIn("101 lines", str(check_code("a.cpp", "int f() {\n" + lines(99) + "}\n", False)[0]))
        self.assertIn("801 lines", str(check_code("a.cpp", "\n" * 801, False)[0]))

    def test_headers(self):
        self.assertIn("pragma once", str(check_code("a.h", "int x;\n", True)[0]))
        self.assertIn("torch/torch.h", str(check_code("a.h", "#pragma once\n#include <torch/torch.h>\n", True)[0]))


if __name__ == "__main__":
    unittest.main()
