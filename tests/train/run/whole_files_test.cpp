// What a run saves of a component that trains whole, beside the component's own file in a model's folder.
#include <gtest/gtest.h>

#include "io/checkpoint_files.h"
#include "tests/scratch.h"
#include "tests/train/options/small_options.h"
#include "train/run/run.h"

using namespace burnish;
namespace fs = std::filesystem;

namespace {

struct Part {
  std::string family, folder;

  std::string component() const {
    if (folder == test::small_family(family).parts[0]) return test::small_family(family).denoiser();
    return folder == "mllm" ? "text_encoder" : folder;  // Boogu's, which sees pictures too
  }
};
void PrintTo(const Part& part, std::ostream* out) { *out << part.family << "_" << part.folder; }

/// Denoisers and text encoders, of models of a folder.
std::vector<Part> trainable_parts() {
  std::vector<Part> all;
  for (const auto& family : test::small_families(&test::SmallFamily::has_own_model)) {
    for (const auto& folder : family.parts) {
      if (folder != "vae" && fs::exists(family.folder() / "model_index.json")) all.push_back({family.name, folder});
    }
  }
  return all;
}

class WholeFile : public testing::TestWithParam<Part> {};

std::map<std::string, std::vector<int64_t>> shapes_in(const io::TensorSource& tensors) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const auto& name : tensors.names()) shapes[name] = tensors.info(name).shape;
  return shapes;
}

}  // namespace

TEST_P(WholeFile, StandsInThePlaceOfTheComponentsOwn) {
  const auto& family = test::small_family(GetParam().family);
  test::Scratch scratch;
  auto options = test::options_of(test::small_run(family.name, "--trainable_models " + GetParam().component()));
  options.output_path = scratch / "run";
  train::train(options);
  std::vector<fs::path> saved;
  for (const auto& entry : fs::directory_iterator(scratch / "run")) {
    if (entry.path().filename().string().starts_with("step-2")) saved.push_back(entry.path());
  }
  ASSERT_EQ(saved.size(), 1u);
  const auto own = io::TensorSource::open_folder(family.folder() / GetParam().folder, {"diffusion_pytorch_model", "model"});
  EXPECT_EQ(shapes_in(io::TensorSource::open({saved[0].string()})), shapes_in(own));
}

INSTANTIATE_TEST_SUITE_P(OfSmallModels, WholeFile, testing::ValuesIn(trainable_parts()),
                         [](const auto& part) { return part.param.family + "_" + part.param.folder; });
