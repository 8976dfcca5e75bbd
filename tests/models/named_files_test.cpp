// Every file that is named is read, or refused by its name: whatever stands before its tensors, and in whichever order files are named.
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "base/error.h"
#include "io/safetensors.h"
#include "models/parts/find_components.h"
#include "models/registry.h"
#include "tests/golden.h"
#include "tests/scratch.h"
#include "tests/small_families.h"

namespace burnish::named_files_test {
using namespace burnish::models;
using testing::HasSubstr;
namespace fs = std::filesystem;

namespace {

io::NamedTensors with_prefix(const fs::path& folder, const std::string& prefix) {
  const auto source = io::TensorSource::open_folder(folder, kWeightStems);
  io::NamedTensors all;
  for (const auto& name : source.names()) all.emplace_back(prefix + name, source.tensor(name));
  return all;
}

std::unique_ptr<Model> opened(const std::vector<std::string>& names) {
  ModelOptions options;
  options.dtype = at::kFloat;
  return open_model(open_model_files({names, "", ""}), options);
}

std::string refusal(const std::vector<std::string>& names) {
  return test::error_of([&] { opened(names); });
}

class NamedFiles : public testing::TestWithParam<test::SmallFamily> {
 protected:
  std::string model() const { return GetParam().folder().string(); }
  std::string denoiser() const { return GetParam().denoiser(); }
  /// A file beside the folder with the weights and the config.json of its denoiser, whose tensors' names begin so.
  std::string file(const std::string& prefix) const {
    const auto folder = GetParam().folder() / GetParam().parts[0];
    const auto path = scratch / "named" / "weights.safetensors";
    fs::create_directories(path.parent_path());
    fs::copy_file(folder / "config.json", path.parent_path() / "config.json", fs::copy_options::overwrite_existing);
    io::save_safetensors(path, with_prefix(folder, prefix));
    return path.string();
  }
  std::string origin_of_denoiser(const std::vector<std::string>& names) const {
    const auto model = opened(names);
    model->components().check(denoiser());
    return model->components().source(denoiser()).entry->label;
  }
  test::Scratch scratch;
};

class TwoFamilies : public testing::Test {
 protected:
  const std::string flux = test::small_family("flux").folder().string(), sdxl = test::small_family("sdxl").folder().string();
  std::string saved(const char* name, const io::NamedTensors& tensors) const {
    io::save_safetensors(scratch / name, tensors);
    return (scratch / name).string();
  }
  test::Scratch scratch;
};

}  // namespace

TEST_P(NamedFiles, StandForThatOfAFolderWhicheverIsNamedFirst) {
  const auto own = file("");
  EXPECT_EQ(origin_of_denoiser({own, model()}), own);
  EXPECT_EQ(origin_of_denoiser({model(), own}), own);
}

TEST_P(NamedFiles, AreReadBelowWhatProgramsPutBeforeThem) {
  for (const auto& prefix : kDenoiserPrefixes) {
    SCOPED_TRACE(prefix);
    const auto own = file(prefix);
    EXPECT_EQ(origin_of_denoiser({model(), own}), own);
  }
}

TEST_P(NamedFiles, WithUnknownNamesAreRefused) {
  const auto own = file("somebodys.wrapper.");
  EXPECT_THAT(refusal({model(), own}),
              testing::AllOf(HasSubstr(own + " is named and nothing of it is read"), HasSubstr("'somebodys.wrapper.")));
}

TEST_P(NamedFiles, WithCountersOfAnAverageAreRead) {
  const auto own = file("");
  auto tensors = with_prefix(GetParam().folder() / GetParam().parts[0], "");
  for (const char* counter : {"num_updates", "decay", "ema.n_averaged"}) tensors.emplace_back(counter, at::zeros({}));
  io::save_safetensors(own, tensors);
  EXPECT_EQ(origin_of_denoiser({model(), own}), own);
}

INSTANTIATE_TEST_SUITE_P(Of, NamedFiles, testing::ValuesIn(test::small_families()), [](const auto& info) { return info.param.name; });

TEST_F(TwoFamilies, OfWhichOneIsReadAreToldApart) {
  EXPECT_THAT(refusal({flux, sdxl}), HasSubstr(sdxl + " is named and nothing of it is read"));
  const auto second = saved("second.safetensors", with_prefix(test::small_family("flux").folder() / "vae", ""));
  EXPECT_THAT(refusal({second, saved("third.safetensors", with_prefix(test::small_family("flux").folder() / "vae", "")), flux}),
              testing::AllOf(HasSubstr("third.safetensors is named"), HasSubstr("it holds KL autoencoder, which other files")));
}

TEST_F(TwoFamilies, AnAdapterIsNoModel) {
  const auto lora = saved("lora.safetensors", {{"transformer.single_transformer_blocks.0.attn.to_q.lora_A.weight", at::zeros({2, 4})}});
  EXPECT_THAT(refusal({flux, lora}), testing::AllOf(HasSubstr(lora), HasSubstr("it is an adapter, which --lora_checkpoint trains on")));
}

/// What a UNet's own file says that it predicts goes before what is said of a model beside it.
TEST_F(TwoFamilies, AFileSaysWhatItPredicts) {
  const auto folder = test::small_family("sdxl").folder() / "unet";
  auto marks = [&](const io::Metadata& metadata, const char* tensor = nullptr) {
    auto tensors = with_prefix(folder, "");
    if (tensor != nullptr) tensors.emplace_back(tensor, at::zeros({1}));
    io::save_safetensors(scratch / "unet/weights.safetensors", tensors, metadata);
    return opened({(scratch / "unet/weights.safetensors").string(), sdxl})->names().marks;
  };
  fs::create_directories(scratch / "unet");
  fs::copy_file(folder / "config.json", scratch / "unet/config.json");
  const std::string key = "modelspec.prediction_type", v = "v_pred";
  EXPECT_THAT(marks({}), testing::IsEmpty());
  for (const char* word : {"v", "v_prediction"}) EXPECT_THAT(marks({{key, word}}), testing::ElementsAre(v)) << word;
  EXPECT_THAT(marks({{key, "epsilon"}}), testing::IsEmpty());
  EXPECT_THAT(marks({{key, "epsilon"}}, "v_pred"), testing::ElementsAre(v));
  EXPECT_THAT(marks({{key, "v"}, {"zero_terminal_snr", "True"}}), testing::ElementsAre(v, "ztsnr"));
  EXPECT_THAT(test::error_of([&] { marks({{key, "flow"}}); }), HasSubstr("says that it predicts 'flow'"));
  EXPECT_THAT(test::error_of([&] { marks({}, "edm_mean"); }), HasSubstr("at the noise levels of EDM ('edm_mean')"));
}

/// The folder of a model may be there for its tokenizers alone.
TEST_F(TwoFamilies, AFolderOfTheFamilyServesBeside) {
  const auto folder = test::small_family("flux").folder();
  std::vector<std::string> names{flux};
  for (const char* part : {"transformer", "text_encoder", "text_encoder_2", "vae"}) names.push_back((folder / part).string());
  EXPECT_EQ(opened(names)->components().source("vae").entry->label, (folder / "vae").string());
  fs::copy(folder, scratch / "other", fs::copy_options::recursive);
  EXPECT_THAT(refusal({flux, (scratch / "other").string()}), HasSubstr("it is a model of the family flux, and the one that is opened"));
}

}  // namespace burnish::named_files_test
