"""Tests of check_comments.py."""
import tempfile
import unittest
from pathlib import Path

from check_comments import SHARES, begins_without_subject, blocks, check, room_of


class Comments(unittest.TestCase):
    def test_blocks_are_told_apart(self):
        text = "/// One.\n/// More.\nint x;  ///< of x\n// Two\n\n// Three\n"
        self.assertEqual(blocks(text), [(1, "One. More."), (4, "Two"), (6, "Three")])

    def test_a_clause_has_no_subject(self):
        for comment in ("Of each layer its rows.", "Whether it is there.", "What is written.", "Those that train.", "Where tokens stand."):
            self.assertTrue(begins_without_subject(comment), comment)
        for comment in ("Reads a header.", "A schedule.", "Offsets of rows.", "Where nothing is said, the scale is 1.", "Whatever it is, it is read."):
            self.assertFalse(begins_without_subject(comment), comment)


class Shares(unittest.TestCase):
    def problems(self, shares, *comments):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for path, text in {SHARES: shares, "tools/rooms.txt": "io:\nmodels/families/*: io\n", "src/io/a.h": "".join(f"/// {c}\nint x;\n" for c in comments)}.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            return [str(problem) for problem in check(root)]

    def test_a_room_has_what_it_is_granted(self):
        self.assertEqual(self.problems("io: 1\n", "Of x.", "Reads x."), [])
        self.assertIn("2 comments begin without a subject, and it may have 1", self.problems("io: 1\n", "Of x.", "Whether y.")[0])
        self.assertIn("write 'io: 0'", self.problems("io: 1\n", "Reads x.")[0])
        self.assertIn("no room nn", self.problems("nn: 1\n", "Reads x.")[0])

    def test_families_are_one_room(self):
        rooms = ["models", "models/families/*"]
        self.assertEqual(room_of(Path("models/families/flux/a.h"), rooms), "models/families/*")
        self.assertEqual(room_of(Path("models/a.h"), rooms), "models")


if __name__ == "__main__":
    unittest.main()
