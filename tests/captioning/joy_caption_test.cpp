// JoyCaption: what its tower sees (parity with transformers: tests/golden/make_joy_caption.py), under the names of every release's files,
// and what is refused. What it writes: write_test.cpp.
#include <gmock/gmock.h>

#include <fstream>

#include "base/error.h"
#include "captioning/caption_text.h"
#include "captioning/write.h"
#include "data/image.h"
#include "io/json.h"
#include "tests/captioning/opened.h"
#include "tests/scratch.h"

namespace burnish::captioning {

namespace {

const std::string kModel = "joy_caption/model";

Shown a_picture() { return {data::decode_image(test::golden_path("captions/pictures/b.png")).unsqueeze(0)}; }

/// A copy of the model's folder, in which weights have other names, "" for those that are left out, and config.json is changed.
std::string changed_model(const test::Scratch& scratch, const std::function<std::string(std::string)>& name_of,
                          const std::function<void(nlohmann::json&)>& change = {}) {
  const auto folder = scratch / "model";
  std::filesystem::copy(test::golden_path(kModel), folder);
  const auto source = io::TensorSource::open({(folder / "model.safetensors").string()});
  io::NamedTensors named;
  for (const auto& name : source.names()) {
    if (const auto other = name_of(name); !other.empty()) named.emplace_back(other, source.tensor(name).clone());
  }
  std::filesystem::remove(folder / "model.safetensors");
  io::save_safetensors(folder / "model.safetensors", named);
  if (change) {
    auto config = io::read_json(folder / "config.json");
    change(config);
    std::ofstream(folder / "config.json") << config.dump();
  }
  return folder.string();
}

std::string with_prefix(const std::string& name, const std::string& prefix, const std::string& other) {
  return name.starts_with(prefix) ? other + name.substr(prefix.size()) : name;
}

std::vector<int64_t> written_by(const std::string& folder) {
  Opened<LanguageModel> opened(folder);
  const auto text = opened.model.ask(a_picture(), prompt_of({}, false, opened.model.prompts()), {});
  return write(opened.model, {{text}}, {.max_new_tokens = 6})->at(0).ids;
}

std::string refused(const std::function<void(nlohmann::json&)>& change) {
  const test::Scratch scratch;
  const auto folder = changed_model(
      scratch, [](const auto& name) { return name; }, change);
  return test::error_of([&] { Opened<LanguageModel> opened(folder); });
}

}  // namespace

TEST(JoyCaption, SeesWhatTransformersDo) {
  Opened<LanguageModel> opened(kModel);
  EXPECT_EQ(opened.model.name(), "JoyCaption");
  EXPECT_FALSE(opened.model.sees_all());
  const auto text = opened.model.ask(a_picture(), "What is it?", {});
  ASSERT_EQ(text.pictures.size(), 1U);
  const auto golden = test::golden("joy_caption/seen.safetensors");
  EXPECT_LE(test::relative_error(text.pictures[0].tokens_RCE.flatten(0, 1), golden.tensor("out.tokens")), test::tolerance(1e-5));
  EXPECT_EQ(LanguageModel::next_place(text), std::ssize(text.ids)) << "tokens of the picture stand in line";
}

TEST(JoyCaption, FilesOfEveryReleaseAreTheSame) {
  const auto written = written_by(kModel);
  EXPECT_EQ(written.size(), 6U);
  const std::string tower = "vision_tower.";
  auto published = [&](const std::string& name) { return with_prefix(name, tower, tower + "vision_model."); };
  auto newest = [&](const std::string& name) {
    const auto text = with_prefix(with_prefix(name, "language_model.model.", "model.language_model."), "language_model.lm_head", "lm_head");
    return with_prefix(with_prefix(text, tower, "model." + tower), "multi_modal_projector.", "model.multi_modal_projector.");
  };
  // What lies behind the tokens that are read need not be there.
  auto cut = [&](const std::string& name) {
    const bool is_behind = name.starts_with(tower + "head.") || name.starts_with(tower + "post_layernorm.");
    return is_behind ? std::string() : published(name);
  };
  for (const std::function<std::string(std::string)>& name_of :
       std::initializer_list<std::function<std::string(std::string)>>{published, newest, cut}) {
    const test::Scratch scratch;
    EXPECT_EQ(written_by(changed_model(scratch, name_of)), written);
  }
}

TEST(JoyCaption, RefusesWhatItCannotBe) {
  using testing::HasSubstr;
  EXPECT_THAT(refused([](auto& config) { config["vision_feature_select_strategy"] = "default"; }),
              HasSubstr("reads layer -2 of 3, default"));
  EXPECT_THAT(refused([](auto& config) { config["vision_feature_layer"] = 4; }), HasSubstr("reads layer 4 of 3"));
  EXPECT_THAT(refused([](auto& config) { config["text_config"]["rope_parameters"]["rope_type"] = "dynamic"; }),
              HasSubstr("stretches positions by \"dynamic\""));
  const test::Scratch scratch;
  const auto without_words = changed_model(scratch, [](const auto& name) { return name; });
  std::filesystem::remove(std::filesystem::path(without_words) / "tokenizer.json");
  EXPECT_THAT(test::error_of([&] { Opened<LanguageModel> opened(without_words); }), HasSubstr("no JoyCaption tokenizer beside the model"));
  EXPECT_THAT(refused([](auto& config) { config["text_config"]["rope_parameters"]["high_freq_factor"] = 1; }),
              HasSubstr("(llama3) by a factor of 8 from 64 tokens, between 1 and 1 turns"));
}

}  // namespace burnish::captioning
