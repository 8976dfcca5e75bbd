// A column of sound from a family's declaration to its unit: nothing but the skeleton family declares it.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "data/read_row.h"
#include "models/model/columns.h"
#include "tests/golden.h"
#include "tests/scratch.h"
#include "tests/skeleton_model.h"
#include "train/samples/inputs.h"

using namespace burnish;
using models::skeleton::kVoice;

namespace {

/// A clip of half a second with a sound of its own, and one with that of another file.
class Voice : public testing::Test {
 protected:
  Voice() {
    test::save_skeleton(scratch / "model.safetensors", /*num_experts=*/1);
    models::ModelOptions options{.extra_inputs = {kVoice.name}};
    options.dtype = at::kFloat;
    model = std::make_unique<models::skeleton::SkeletonModel>(
        models::open_model_files({{(scratch / "model.safetensors").string()}, "", ""}), options);
    data::Subset subset{.base_path = test::golden_path("clips"),
                        .metadata_path = scratch.write("rows.jsonl", R"({"video": "sound.mp4", "prompt": "a"}
{"video": "sound.mp4", "prompt": "b", "voice": "sound.wav"})")};
    subset.size = {.height = 48, .width = 64};
    subset.clips = {.num_frames = 5, .rate = {10, 1}};
    const auto columns = models::columns_of_rows(models::columns_of(*model));
    data::fit(subset, target_of(columns));
    samples.columns = columns;
    samples.pictures = std::make_unique<data::Dataset>(data::DatasetOptions{.subsets = {subset}, .columns = columns});
    for (auto row : samples.pictures->rows())
      samples.list.push_back({.number = row, .extent = samples.pictures->extent(row), .row = samples.pictures->row(row)});
  }
  at::Tensor heard(int64_t row) { return std::get<at::Tensor>(input.load(samples, {row})); }
  std::string content(int64_t row) { return input.content(samples, {row}, {{"", "h"}}); }

  test::Scratch scratch;
  std::unique_ptr<models::Model> model;
  train::Samples samples;
  const train::InputTable inputs{Columns{kVoice}, {}, {}, {}};
  const train::Input& input = *inputs.find(kVoice.name);
};

}  // namespace

TEST_F(Voice, IsAsLongAsTheFramesOfItsRow) {
  for (int64_t row : {0, 1}) EXPECT_EQ(heard(row).sizes(), (std::vector<int64_t>{1, 2, 4000})) << row;
  EXPECT_THAT(content(0), testing::StartsWith("sound of h at 8000 in 2 channels, cut to 48x64"));
  EXPECT_THAT(content(1), testing::Not(testing::HasSubstr("sound of h ")));
}

TEST_F(Voice, IsReadByTheUnitThatHears) {
  pipeline::Values values{{kVoice.name, heard(0)}};
  pipeline::run(model->units().encode_references, values);
  const auto loudness = std::get<at::Tensor>(values.at("loudness"));
  EXPECT_EQ(loudness.sizes(), (std::vector<int64_t>{1, 1, 1}));
  EXPECT_TRUE(at::allclose(loudness, heard(0).square().mean().sqrt().view({1, 1, 1})));
  EXPECT_GT(loudness.item<double>(), 0);
}

TEST_F(Voice, APlanTakesSilenceOfTheSameShape) {
  train::Samples planned;
  planned.columns = samples.columns;
  planned.list = {{.number = 0, .extent = {16, 48, 64}}};
  const auto silence = std::get<at::Tensor>(input.load(planned, {0}));
  EXPECT_EQ(silence.sizes(), (std::vector<int64_t>{1, 2, 8000}));
  EXPECT_EQ(silence.abs().max().item<double>(), 0);
}
