// Options that only some families have: declared by them, refused or left unread elsewhere.
#include <gmock/gmock.h>

#include "base/error.h"
#include "io/files.h"
#include "models/registry.h"
#include "tests/places.h"
#include "tests/small_families.h"

namespace burnish::options_test {
using namespace burnish::models;

namespace {

const std::filesystem::path kSource = test::kCheckout;

std::string refusal(const char* model, const ModelOptions& options) {
  try {
    open_model(open_model_files({{(kSource / "tests/golden" / model).string()}, "", ""}), options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

ModelOptions with(const std::string& name, const OptionValue& value) {
  ModelOptions options;
  options.own.set(name, value);
  return options;
}

const Option& option(const std::string& name) {
  static const auto all = family_options();
  return *std::ranges::find(all, name, &Option::name);
}

}  // namespace

TEST(FamilyOptions, AreRefusedWhereTheyMeanNothing) {
  EXPECT_EQ(refusal("pipeline/model", with("clip_skip", int64_t{2})), "[models] clip_skip is not supported for this model; take it out");
  EXPECT_EQ(refusal("sd15_pipeline/model", with("clip_skip", int64_t{2})), "");
  EXPECT_EQ(refusal("pipeline/model", with("clip_skip", int64_t{0})), "") << "its default is as good as not given";
  for (const auto& family : test::small_families()) {
    const std::string said = "[models] embedded_guidance is not supported for this model; it embeds no guidance: take it out";
    EXPECT_EQ(refusal((family.pipeline() + "/model").c_str(), with("embedded_guidance", 3.5)),
              family.name == "flux" || family.name == "flux2_dev" ? "" : said)
        << family.name;
  }
}

TEST(FamilyOptions, OfAVerbThatDrawsBeginWithTheirValuesForDrawing) {
  auto drawn = [](double guidance) {
    ModelOptions options{.own = default_options()};
    options.own.begin_with_drawing();
    options.own.set("embedded_guidance", guidance);
    return options;
  };
  EXPECT_EQ(refusal("sd15_pipeline/model", drawn(3.5)), "");
  EXPECT_NE(refusal("sd15_pipeline/model", drawn(1.0)), "");
}

TEST(FamilyOptions, OfHalfPrecisionGoByTheFamily) {
  ModelOptions half{.dtype = c10::kHalf};
  EXPECT_EQ(refusal("pipeline/model", half), "[models] fp16 is not supported for this model; choose dtype bf16 or fp32");
  EXPECT_EQ(refusal("sd15_pipeline/model", half), "");
}

TEST(FamilyOptions, HaveNamesOfTheirOwnAndDefaultsThatAreRight) {
  auto defaults = default_options();
  EXPECT_EQ(defaults.size(), family_options().size());
  for (const auto& each : family_options()) {
    EXPECT_FALSE(each.help.empty()) << each.name;
    if (each.why_wrong) {
      EXPECT_EQ(each.why_wrong(each.name, defaults.at(each.name)), "");
    }
  }
}

TEST(FamilyOptions, MayHaveOtherValuesForDrawing) {
  ModelOptions options{.own = default_options()};
  EXPECT_EQ(options.get<double>("embedded_guidance"), 1.0);
  EXPECT_EQ(options.get_for_drawing<double>("embedded_guidance"), 3.5);
  options.own.begin_with_drawing();
  EXPECT_EQ(options.get<double>("embedded_guidance"), 3.5);
  options.own.set("embedded_guidance", 2.0);
  EXPECT_EQ(options.get_for_drawing<double>("embedded_guidance"), 2.0) << "what is asked for is drawn with";
}

TEST(FamilyOptions, AreGivenWhereTheyAreAnotherThanByThemselves) {
  const auto& guidance = option("embedded_guidance");
  OptionValues values;
  EXPECT_FALSE(values.is_given(guidance));
  values.add(guidance);
  EXPECT_FALSE(values.is_given(guidance));
  values.set("embedded_guidance", 3.5);
  EXPECT_TRUE(values.is_given(guidance));
  values.add(guidance);
  EXPECT_EQ(values.get<double>("embedded_guidance"), 3.5) << "and stay";
  values.begin_with_drawing();
  EXPECT_FALSE(values.is_given(guidance));
  EXPECT_FALSE(OptionValues({{"embedded_guidance", 1.0}}).is_given(guidance));
}

/// Families may name and rename their options: what needs one elsewhere asks what they are about.
TEST(FamilyOptions, AreSpelledInNoRoomOfRuns) {
  for (const auto* room : {"src/train", "src/app", "src/drawing"}) {
    for (const auto& file : std::filesystem::recursive_directory_iterator(kSource / room)) {
      if (!file.is_regular_file()) continue;
      const auto text = io::read_text(file.path());
      for (const auto& each : family_options())
        EXPECT_EQ(text.find('"' + each.name + '"'), text.npos) << each.name << " in " << file.path();
    }
  }
}

TEST(FamilyOptions, RefuseValuesInASentence) {
  auto wrong = [](const std::string& name, const OptionValue& value) { return option(name).why_wrong(name, value); };
  EXPECT_EQ(option("clip_skip").least, 0);
  EXPECT_EQ(option("max_sequence_length").least, 0);
  EXPECT_TRUE(option("max_sequence_length").most);
  EXPECT_EQ(wrong("vae_tile_size", int64_t{500}), "vae_tile_size must be 0 or a multiple of 32, not 500");
  EXPECT_EQ(wrong("vae_tile_size", int64_t{-32}), "vae_tile_size must be 0 or a multiple of 32, not -32");
  EXPECT_THAT(option("prediction_type").choices, testing::ElementsAre("", "epsilon", "v_prediction"));
  EXPECT_EQ(wrong("max_token_length", int64_t{77}), "max_token_length must be 75, 150, 225 or another multiple of 75, not 77");
}

}  // namespace burnish::options_test
