"""Tests of check_errors.py."""
import unittest

from check_errors import as_words, is_documented, sentences

PAGE = as_words("""| `'…' is not finite: …; get it again` | download it |
| `lora_rank must be above 0, not …` | |""")


def undocumented(source):
    return [line for line, texts in sentences(source) if not is_documented(texts, PAGE)]


class Errors(unittest.TestCase):
    def test_sentences_are_found_over_several_lines(self):
        source = 'a();\nconfig_error("train",\n  "first half, "\n  "second {} half", f("x"));\n'
        self.assertEqual(sentences(source), [(2, ["first half, second {} half"])])

    def test_brackets_in_literals_do_not_end_a_call(self):
        self.assertEqual(sentences('data_error("io", "a (broken", n); g("not an error");'), [(1, ["a (broken"])])

    def test_a_row_is_a_run_of_words_between_values(self):
        self.assertEqual(undocumented('config_error("a", "{} must be above 0, not {}", name, value);'), [])
        self.assertEqual(undocumented('data_error("a", "\'{}\' is not finite: {}", name, where);'), [])

    def test_a_sentence_without_a_row_is_named(self):
        self.assertEqual(undocumented('\n\nthrow Error(Exit::data, "a", "the moon is made of {} cheese");'), [3])

    def test_one_of_several_texts_is_enough(self):
        self.assertEqual(undocumented('data_error("a", "{}", broken ? "lora_rank must be above 0" : "the moon is full");'), [])

    def test_what_is_passed_on_needs_no_row(self):
        self.assertEqual(undocumented('config_error("a", "{}", reason);'), [])


if __name__ == "__main__":
    unittest.main()
