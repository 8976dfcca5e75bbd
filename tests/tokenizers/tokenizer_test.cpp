// Id-for-id equality with transformers on 2,000 strings, with the real vocabularies of CLIP-L and T5, and on the first 400 of them with
// parts of those vocabularies as a tokenizer.json.
#include "tokenizers/tokenizer.h"

#include <ATen/core/Tensor.h>
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "io/files.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "tests/places.h"
#include "tests/scratch.h"
#include "tokenizers/gemma.h"
#include "tokenizers/qwen.h"
#include "tokenizers/tekken.h"
#include "tokenizers/unicode.h"
#include "tokenizers/white_space.h"

using namespace burnish;
namespace fs = std::filesystem;

namespace {

const fs::path kGolden = fs::path(test::kCheckout) / "tests/golden/tokenizers";

void expect_golden(const tokenizers::Tokenizer& tokenizer, const std::string& name, int64_t padded_length,
                   const std::string& ids_file = "ids.safetensors", int64_t num_texts = 2000,
                   const std::string& texts_file = "strings.json") {
  auto texts = io::read_json(kGolden / texts_file).get<std::vector<std::string>>();
  texts.resize(static_cast<size_t>(num_texts));
  auto file = io::SafetensorsFile::open(kGolden / ids_file);
  auto ids = file->tensor(name + ".ids"), ends = file->tensor(name + ".ends"), sums = file->tensor(name + ".padded_sum"),
       last = file->tensor(name + ".last");
  ASSERT_EQ(ends.numel(), num_texts);
  const auto* flat = ids.const_data_ptr<int32_t>();
  int64_t begin = 0, wrong = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    auto end = ends.const_data_ptr<int32_t>()[i];
    std::vector<int64_t> expected(flat + begin, flat + end);
    begin = end;
    auto found = tokenizer.encode(texts[i]);
    if (found != expected && ++wrong <= 5) {
      auto first = std::mismatch(expected.begin(), expected.end(), found.begin(), found.end()).first - expected.begin();
      auto window = [&](const std::vector<int64_t>& v) {
        auto from = std::min(first, std::ssize(v)), to = std::min(first + 12, std::ssize(v));
        return testing::PrintToString(std::vector<int64_t>(v.begin() + from, v.begin() + to));
      };
      ADD_FAILURE() << name << " string " << i << " from token " << first << ": expected " << window(expected) << ", found "
                    << window(found) << "\n"
                    << texts[i];
      continue;
    }
    auto padded = tokenizer.encode_padded(texts[i], padded_length);
    ASSERT_EQ(std::ssize(padded.ids), padded_length);
    int64_t sum = 0;
    for (size_t k = 0; k < padded.ids.size(); ++k) sum += padded.ids[k] * static_cast<int64_t>(k + 1);
    if (found == expected) {
      EXPECT_EQ(sum, sums.const_data_ptr<int64_t>()[i]) << name << " string " << i;
      EXPECT_EQ(padded.ids.back(), last.const_data_ptr<int32_t>()[i]);
      EXPECT_EQ(padded.truncated, std::ssize(expected) > padded_length);
    }
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace

TEST(Tokenizer, ClipPadsWithTheTokenAskedFor) {
  auto plain = tokenizers::load_clip(kGolden / "clip")->encode_padded("a cat", 8);
  auto padded = tokenizers::load_clip(kGolden / "clip", "!")->encode_padded("a cat", 8);
  EXPECT_EQ(plain.ids.back(), 49407);
  EXPECT_EQ(padded.ids.back(), 0);
  EXPECT_EQ(padded.ids[3], 49407);  // the end token stays
  EXPECT_EQ(padded.num_tokens, plain.num_tokens);
  EXPECT_THROW(tokenizers::load_clip(kGolden / "clip", "no such token"), Error);
}

TEST(Tokenizer, ClipEqualsTransformers) { expect_golden(*tokenizers::load_clip(kGolden / "clip"), "clip", 77); }

TEST(Tokenizer, T5EqualsTransformers) { expect_golden(*tokenizers::load_t5(kGolden / "t5"), "t5", 512); }

TEST(Tokenizer, QwenEqualsTransformers) {
  for (const char* folder : {"qwen", "qwen_json"})
    expect_golden(*tokenizers::load_qwen(kGolden / folder), "qwen", 24, "qwen_ids.safetensors", 600, "qwen_strings.json");
}

TEST(Tokenizer, Qwen35EqualsTransformers) {
  expect_golden(*tokenizers::load_qwen35(kGolden / "qwen35_json"), "qwen35", 24, "qwen35_ids.safetensors", 600, "qwen_strings.json");
  EXPECT_NE(test::error_of([] { tokenizers::load_qwen35(kGolden / "qwen_json"); }).find("another way than Qwen3.5's tokenizers"),
            std::string::npos);
}

TEST(Tokenizer, Llama3EqualsTransformers) {
  expect_golden(*tokenizers::load_llama3(kGolden / "llama3_json"), "llama3", 24, "llama3_ids.safetensors", 600, "qwen_strings.json");
  EXPECT_NE(test::error_of([] { tokenizers::load_llama3(kGolden / "qwen_json"); }).find("another way than Llama 3's tokenizers"),
            std::string::npos);
  EXPECT_NE(test::error_of([] { tokenizers::load_qwen(kGolden / "llama3_json"); }).find("another way than Qwen2's"), std::string::npos);
}

TEST(Tokenizer, BytesThatAreNoTextAreOneMarkForWhatCouldBeginACharacter) {
  // As Python's bytes.decode(errors="replace") and tokenizers' decoder.
  const std::vector<std::pair<std::string, std::vector<int32_t>>> cases{
      {"a\xF0\x9F\x98", {'a', 0xFFFD}},
      {"\xF0\x9F\x98z", {0xFFFD, 'z'}},
      {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", {0xFFFD, 0xFFFD, 0xFFFD, 0xFFFD, 'A'}},
      {"\xC0\xAF\xE0\x80\xBF", {0xFFFD, 0xFFFD, 0xFFFD, 0xFFFD, 0xFFFD}},
      {"\xED\xA0\x80\xF4\x91\x92\x93", {0xFFFD, 0xFFFD, 0xFFFD, 0xFFFD, 0xFFFD, 0xFFFD, 0xFFFD}},
      {"\xC3\xA9\x80", {0xE9, 0xFFFD}}};
  for (const auto& [bytes, codes] : cases) EXPECT_EQ(tokenizers::code_points(bytes), codes) << bytes;
}

TEST(Tokenizer, TekkenEqualsTransformers) {
  for (const char* folder : {"tekken", "tekken_json"}) {
    auto tokenizer = tokenizers::load_tekken(kGolden / folder);
    auto expect_texts = [&](const char* name, int64_t num_texts, const char* texts) {
      expect_golden(*tokenizer, name, 24, "tekken_ids.safetensors", num_texts, texts);
    };
    expect_texts("tekken", 600, "qwen_strings.json");
    expect_texts("cased", 300, "tekken_strings.json");
    EXPECT_EQ(tokenizer->num_ids(), 736);
    EXPECT_EQ(tokenizer->encode(""), std::vector<int64_t>{1}) << "the token that begins texts";
  }
}

TEST(Tokenizer, GemmaEqualsTransformers) {
  for (const char* folder : {"gemma", "gemma_json"}) {
    auto tokenizer = tokenizers::load_gemma(kGolden / folder);
    expect_golden(*tokenizer, "gemma", 24, "gemma_ids.safetensors", 299, "gemma_strings.json");
    EXPECT_EQ(tokenizer->num_ids(), 900);
    EXPECT_EQ(tokenizer->encode(""), std::vector<int64_t>{2}) << "the token that begins texts";
    EXPECT_EQ(tokenizer->encode_inner("<mask>"), std::vector<int64_t>{4});
    const auto padded = tokenizer->encode_padded("", 4);
    EXPECT_EQ(padded.ids, (std::vector<int64_t>{0, 0, 0, 2}));
    EXPECT_EQ(padded.first_token, 3);
    EXPECT_EQ(padded.num_tokens, 1);
  }
  for (const char* name : {"gemma/tokenizer.model", "gemma_json/tokenizer.json"})
    expect_golden(*tokenizers::gemma_of_bytes(io::read_text(kGolden / name), "here"), "gemma", 24, "gemma_ids.safetensors", 299,
                  "gemma_strings.json");
}

TEST(Tokenizer, GemmaRefusesTheStepsAndVocabulariesOfOthers) {
  test::Scratch scratch;
  const auto whole = io::read_json(kGolden / "gemma_json/tokenizer.json");
  auto refused = [&](const std::function<void(nlohmann::json&)>& change) {
    auto other = whole;
    change(other);
    scratch.write("tokenizer.json", other.dump());
    return test::error_of([&] { tokenizers::load_gemma(scratch.path()); });
  };
  EXPECT_NE(refused([](auto& json) { json["normalizer"]["content"] = "_"; }).find("another model's"), std::string::npos);
  EXPECT_NE(refused([](auto& json) { json["pre_tokenizer"]["type"] = "Whitespace"; }).find("another model's"), std::string::npos);
  EXPECT_NE(refused([](auto& json) { json["model"]["byte_fallback"] = false; }).find("byte_fallback"), std::string::npos);
  EXPECT_NE(refused([](auto& json) { json["model"]["vocab"].erase("<b>"), json["added_tokens"].erase(9); }).find("leaves out"),
            std::string::npos);
  EXPECT_NE(refused([](auto& json) { json["added_tokens"][9]["id"] = 8; }).find("another's"), std::string::npos);
  EXPECT_NE(test::error_of([] { tokenizers::gemma_of_bytes("no model", "here"); }).find("SentencePiece"), std::string::npos);
  EXPECT_NE(test::error_of([] { tokenizers::gemma_of_bytes("{\"model\": 1", "here"); }).find("save the tokenizer anew"), std::string::npos);
  const auto t5 = io::read_text(kGolden / "t5/spiece.model");
  EXPECT_NE(test::error_of([&] { tokenizers::gemma_of_bytes(t5, "here"); }).find("bytes"), std::string::npos);
}

/// tests/golden/check_tekken.py
TEST(Tokenizer, TekkenEqualsMistralCommonOnTheRealRanks) {
  const char* folder = std::getenv("BURNISH_TEKKEN_FOLDER");
  if (folder == nullptr) GTEST_SKIP() << "tests/golden/check_tekken.py makes the folder from the ranks in mistral-common";
  auto tokenizer = tokenizers::load_tekken(folder);
  const auto cases = io::read_json(fs::path(folder) / "cases.json");
  EXPECT_GE(cases.size(), 2000u);
  for (const auto& each : cases) {
    const auto text = each.at("text").get<std::string>();
    EXPECT_EQ(tokenizer->encode_bare(text), each.at("ids").get<std::vector<int64_t>>()) << text;
  }
}

TEST(Tokenizer, TekkenPutsAroundATextWhatItsFolderSays) {
  auto bare = tokenizers::load_tekken(kGolden / "tekken_json")->encode("a cat");
  auto with = [&](std::vector<int64_t> before, const std::vector<int64_t>& behind) {
    before.insert(before.end(), bare.begin(), bare.end());
    before.insert(before.end(), behind.begin(), behind.end());
    return before;
  };
  test::Scratch scratch;
  auto json = io::read_json(kGolden / "tekken_json/tokenizer.json");
  auto special = [](const char* token) { return nlohmann::json{{"SpecialToken", {{"id", token}, {"type_id", 0}}}}; };
  json["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single", {special("<s>"), {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}, special("</s>")}},
                            {"special_tokens", {{"<s>", {{"ids", {1}}}}, {"</s>", {{"ids", {2}}}}}}};
  scratch.write("tokenizer.json", json.dump());
  auto encoded = [&](const tokenizers::ChatTemplate& chat = {}) { return tokenizers::load_tekken(scratch.path(), chat)->encode("a cat"); };
  EXPECT_EQ(encoded(), with({1}, {2}));
  EXPECT_EQ(encoded({"<s>[INST]", "[/INST]"}), with({1, 3}, {4})) << "a template says all that stands around a text";
  scratch.write("tokenizer_config.json", R"({"add_bos_token": false})");
  EXPECT_EQ(encoded(), bare);
  scratch.write("tokenizer_config.json", R"({"add_bos_token": true, "add_eos_token": true})");
  EXPECT_EQ(encoded(), with({1}, {2}));
}

TEST(Tokenizer, TekkenRefusesTheStepsOfOthers) {
  test::Scratch scratch;
  for (const std::string name : {"tekken/tekken.json", "tekken_json/tokenizer.json"}) {
    auto json = io::read_json(kGolden / name);
    auto& pattern = name.starts_with("tekken/") ? json["config"]["pattern"] : json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"];
    pattern = "\\p{L}+";
    scratch.write(fs::path(name).filename().string(), json.dump());
    EXPECT_NE(test::error_of([&] { tokenizers::load_tekken(scratch.path()); }).find("another model's"), std::string::npos) << name;
  }
}

TEST(Tokenizer, ADamagedTekkenFileIsASentence) {
  test::Scratch scratch;
  auto whole = io::read_json(kGolden / "tekken/tekken.json");
  for (const char* place : {"/config/default_vocab_size", "/config/default_num_special_tokens", "/vocab/300/token_bytes", "/vocab/300/rank",
                            "/vocab/65", "/vocab", "/special_tokens/1/token_str", "/special_tokens/1/rank", "/config"}) {
    for (const nlohmann::json& other : {nlohmann::json(nullptr), nlohmann::json("\x01"), nlohmann::json(-1), nlohmann::json(1e300)}) {
      auto damaged = whole;
      damaged[nlohmann::json::json_pointer(place)] = other;
      scratch.write("tekken.json", damaged.dump());
      EXPECT_NE(test::error_of([&] { tokenizers::load_tekken(scratch.path())->encode("a cat"); }), "") << place << " " << other;
    }
  }
}

TEST(Tokenizer, QwenEqualsTiktokenOnTheRealRanks) {
  const char* folder = std::getenv("BURNISH_QWEN_FOLDER");
  if (folder == nullptr) GTEST_SKIP() << "tests/golden/check_tokenizer.py makes the folder from Qwen's published ranks";
  auto tokenizer = tokenizers::load_qwen(folder);
  const auto cases = io::read_json(fs::path(folder) / "cases.json");
  EXPECT_GE(cases.size(), 2000u);
  for (const auto& each : cases) {
    const auto text = each.at("text").get<std::string>();
    EXPECT_EQ(tokenizer->encode(text), each.at("ids").get<std::vector<int64_t>>()) << text;
  }
}

TEST(Tokenizer, QwenEncodesWithinAChatTemplate) {
  auto plain = tokenizers::load_qwen(kGolden / "qwen");
  auto chat = tokenizers::load_qwen(kGolden / "qwen", {"<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"});
  EXPECT_EQ(chat->encode("a cat"), plain->encode("<|im_start|>user\na cat<|im_end|>\n<|im_start|>assistant\n"));
  EXPECT_EQ(chat->num_before(), std::ssize(plain->encode("<|im_start|>user\n")));
  EXPECT_EQ(chat->encode_bare("a cat"), plain->encode("a cat"));
  EXPECT_EQ(plain->num_before(), 0);
  EXPECT_EQ(plain->end_id(), -1);
  EXPECT_NE(test::error_of([] { tokenizers::load_qwen(kGolden / "qwen", {"<|begin|>", ""}); }).find("<|begin|>"), std::string::npos);
}

TEST(Tokenizer, IdsBecomeTheTextThatTheyWereMadeOf) {
  const auto texts = io::read_json(kGolden / "qwen_strings.json");
  auto qwen = tokenizers::load_qwen(kGolden / "qwen"), json = tokenizers::load_qwen(kGolden / "qwen_json");
  auto tekken = tokenizers::load_tekken(kGolden / "tekken");
  int64_t num_compared = 0;
  for (const auto& each : texts) {
    const auto text = each.get<std::string>();
    const bool is_special = text.find('<') != text.npos || text.find('[') != text.npos;
    const auto again = qwen->decode(qwen->encode_bare(text));
    EXPECT_EQ(json->decode(json->encode_bare(text)), again);
    if (is_special) continue;
    EXPECT_EQ(qwen->encode_bare(again), qwen->encode_bare(text)) << text;
    EXPECT_EQ(tekken->encode_bare(tekken->decode(tekken->encode_bare(text))), tekken->encode_bare(text)) << text;
    ++num_compared;
  }
  EXPECT_GT(num_compared, 300);
  EXPECT_EQ(qwen->decode(qwen->encode_bare("<|im_start|>a café<|im_end|>")), "a café");
  EXPECT_EQ(qwen->decode({qwen->encode_bare("a")[0], 1 << 20}), "a");
}

TEST(Tokenizer, QwenRefusesTheStepsOfOthers) {
  test::Scratch scratch;
  auto whole = io::read_json(kGolden / "qwen_json/tokenizer.json");
  auto refused = [&](const std::function<void(nlohmann::json&)>& change) {
    auto other = whole;
    change(other);
    scratch.write("tokenizer.json", other.dump());
    return test::error_of([&] { tokenizers::load_qwen(scratch.path()); });
  };
  EXPECT_NE(refused([](auto& json) { json["normalizer"] = nullptr; }).find("another model's"), std::string::npos);
  EXPECT_NE(refused([](auto& json) { json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "\\p{N}{1,3}"; }).find("another"),
            std::string::npos);
  EXPECT_NE(refused([](auto& json) { json["model"]["ignore_merges"] = true; }).find("another"), std::string::npos);
  EXPECT_NE(refused([](auto& json) { json["added_tokens"][0]["rstrip"] = true; }).find("another"), std::string::npos);
}

TEST(Tokenizer, LongWordsAreMergedInNearLinearTime) {
  auto tokenizer = tokenizers::load_qwen(kGolden / "qwen");
  auto ids = tokenizer->encode(std::string(1'000'000, 'a'));  // one word; in quadratic time this takes hours
  EXPECT_GT(ids.size(), 1000u);
}

TEST(Tokenizer, JsonAloneEqualsTransformers) {
  expect_golden(*tokenizers::load_clip(kGolden / "clip_json"), "clip_json", 77, "json_ids.safetensors", 400);
  expect_golden(*tokenizers::load_t5(kGolden / "t5_json"), "t5_json", 512, "json_ids.safetensors", 400);
}

TEST(Tokenizer, JsonOfOtherWritersEqualsTokenizers) {
  test::Scratch scratch;
  auto json = io::read_json(kGolden / "t5_json/tokenizer.json");
  auto load = [&](const nlohmann::json& normalizer, const nlohmann::json& pre_tokenizer) {
    json["normalizer"] = normalizer;
    json["pre_tokenizer"] = pre_tokenizer;
    io::write_text_atomic(scratch / "tokenizer.json", json.dump());
    return tokenizers::load_t5(scratch.path());
  };
  auto charsmap = json["normalizer"], splits = json["pre_tokenizer"], marks = splits["pretokenizers"][1];
  nlohmann::json strip{{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}};
  nlohmann::json one_blank{{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", "\u2581"}};
  nlohmann::json steps{{"type", "Sequence"}, {"normalizers", {charsmap, strip, one_blank}}};
  expect_golden(*load(steps, marks), "t5_blanks", 512, "json_ids.safetensors", 400);
  expect_golden(*load(nullptr, splits), "t5_plain", 512, "json_ids.safetensors", 400);
  nlohmann::json lower{{"type", "Lowercase"}};
  EXPECT_NE(test::error_of([&] { load(lower, splits); }).find("Lowercase"), std::string::npos);
  marks["prepend_scheme"] = "first";
  EXPECT_NE(test::error_of([&] { load(charsmap, marks); }).find("Metaspace"), std::string::npos);
}

/// tests/golden/make_byte_fallback.py
TEST(Tokenizer, TextThatAVocabularyLacksIsItsBytesWhereTheFileSaysSo) {
  test::Scratch scratch;
  auto json = io::read_json(kGolden / "t5_json/tokenizer.json");
  auto& model = json["model"];
  for (int byte = 0; byte < 256; ++byte) model["vocab"].push_back({fmt::format("<0x{:02X}>", byte), 0.0});
  auto ids_of = [&](bool falls_back, const std::string& text) {
    model["byte_fallback"] = falls_back;
    io::write_text_atomic(scratch / "tokenizer.json", json.dump());
    return tokenizers::load_t5(scratch.path())->encode(text);
  };
  for (const auto& one : io::read_json(kGolden.parent_path() / "byte_fallback.json")) {
    const auto text = one.at("text").get<std::string>();
    EXPECT_EQ(ids_of(true, text), one.at("ids").get<std::vector<int64_t>>()) << text;
  }
  EXPECT_EQ(ids_of(false, "\u72ac").size(), 3u) << "a blank, the unknown token, the end";
}

static void keep_first(nlohmann::json& list, std::ptrdiff_t count) { list.erase(list.begin() + count, list.end()); }

/// The special tokens, those that users defined, the bytes and a few pieces.
static void keep_few_of_gemma(nlohmann::json& model) {
  keep_first(model["merges"], 3);
  std::erase_if(model["vocab"].get_ref<nlohmann::json::object_t&>(), [](const auto& token) { return token.second >= 270; });
}

/// A tokenizer.json in which any one value is missing, or of another kind, ends in a sentence, or is not asked for.
TEST(Tokenizer, DamagedJsonIsASentence) {
  test::Scratch scratch;
  for (const std::string name : {"clip_json", "t5_json", "qwen_json", "gemma_json"}) {
    auto whole = io::read_json(kGolden / name / "tokenizer.json");
    if (name == "gemma_json") keep_few_of_gemma(whole["model"]);
    // Few pieces do: what is wrong with one of them is wrong with all.
    auto& model = whole["model"];
    if (name == "t5_json") {
      whole["normalizer"]["precompiled_charsmap"] = "";
      keep_first(model["vocab"], 20);
      keep_first(whole["added_tokens"], 4);
    } else if (name == "qwen_json") {
      keep_first(model["merges"], 3);
      const auto merges = model["merges"];
      auto is_merged = [&](const std::string& token) {
        return std::ranges::any_of(merges, [&](const auto& merge) {
          return merge[0].template get<std::string>() + merge[1].template get<std::string>() == token;
        });
      };
      std::erase_if(model["vocab"].get_ref<nlohmann::json::object_t&>(),
                    [&](const auto& token) { return token.second >= 256 && !is_merged(token.first); });
    } else if (name == "clip_json") {
      keep_first(model["merges"], 3);
      std::erase_if(model["vocab"].get_ref<nlohmann::json::object_t&>(), [](const auto& token) { return token.second < 3450; });
      for (const char* token : {"a", "n", "i", "t", "h", "in", "th", "an"}) model["vocab"][token] = model["vocab"].size();
    }
    std::set<nlohmann::json::json_pointer> places;
    const auto flat = whole.flatten();
    for (const auto& [place, value] : flat.items()) {
      for (nlohmann::json::json_pointer at(place); !at.empty(); at.pop_back()) places.insert(at);
    }
    // All bytes have to be in the vocabularies of Qwen and Gemma; a few of them stand for all.
    if (name == "qwen_json" || name == "gemma_json") {
      std::erase_if(places, [&](const auto& place) {
        return place.parent_pointer() == nlohmann::json::json_pointer("/model/vocab") && whole.at(place) >= 8;
      });
    }
    int64_t num_refused = 0;
    for (const auto& place : places) {
      for (const nlohmann::json& other : {nlohmann::json(nullptr), nlohmann::json("x"), nlohmann::json(-1), nlohmann::json(1e300),
                                          nlohmann::json::array(), nlohmann::json::object()}) {
        auto damaged = whole;
        damaged[place] = other;
        scratch.write("tokenizer.json", damaged.dump());
        try {
          if (name == "t5_json") tokenizers::load_t5(scratch.path())->encode("a cat");
          else if (name == "qwen_json") tokenizers::load_qwen(scratch.path())->encode("a cat");
          else if (name == "gemma_json") tokenizers::load_gemma(scratch.path())->encode("a cat");
          else tokenizers::load_clip(scratch.path())->encode("a cat");
        } catch (const Error& error) {
          ++num_refused;
          EXPECT_EQ(error.code(), Exit::data) << error.what();
        } catch (const std::exception& other_error) {
          ADD_FAILURE() << place << " as " << other << ": " << other_error.what();
        }
      }
    }
    EXPECT_GT(num_refused, 20) << name;
  }
}

TEST(Tokenizer, TextsAreStrippedAsPythonDoes) {
  using tokenizers::stripped;
  EXPECT_EQ(stripped("\u3000 a\u00a0b \n\u2028\x1f"), "a\u00a0b");
  EXPECT_EQ(stripped("a"), "a");
  EXPECT_EQ(stripped(" \t "), "");
  EXPECT_EQ(stripped(""), "");
  EXPECT_EQ(stripped(" \u200bx\xff "), "\u200bx\xff") << "neither no space nor what is no UTF-8 is white";
}

TEST(Tokenizer, MergesOfNoUseAreRefused) {
  test::Scratch scratch;
  io::write_text_atomic(scratch / "vocab.json", io::read_text(kGolden / "clip/vocab.json"));
  for (const char* merges : {"", "#version: 0.2\n", "\n\n", "<html>404</html>\n", "zz qqqqq</w>\n", "\xff\xfe\x00\x01"}) {
    io::write_text_atomic(scratch / "merges.txt", merges);
    EXPECT_NE(test::error_of([&] { tokenizers::load_clip(scratch.path()); }).find("damaged"), std::string::npos) << merges;
  }
  io::write_text_atomic(scratch / "merges.txt", "#version: 0.2\r\na n\r\n");
  EXPECT_EQ(tokenizers::load_clip(scratch.path())->encode("an").size(), 4u);  // "a" and "n</w>": this merge is for inner letters
}

TEST(Tokenizer, LengthLimitsAreRead) {
  EXPECT_EQ(tokenizers::load_clip(kGolden / "clip")->model_max_length(), 77);
  EXPECT_EQ(tokenizers::load_t5(kGolden / "t5")->model_max_length(), 512);
}

TEST(Tokenizer, MissingFilesAreNamed) {
  EXPECT_THROW(tokenizers::load_clip("/nowhere"), Error);
  EXPECT_THROW(tokenizers::load_t5("/nowhere"), Error);
  EXPECT_THROW(tokenizers::load_qwen("/nowhere"), Error);
  EXPECT_THROW(tokenizers::load_tekken("/nowhere"), Error);
  EXPECT_THROW(tokenizers::load_gemma("/nowhere"), Error);
}
