// Libraries that are opened when they are needed (docs/decisions/0042), where they are missing.
#include <gmock/gmock.h>

#include "tests/hub/fake_hub.h"
#include "tests/integration/refused.h"
#include "tests/places.h"

using namespace burnish;
using namespace burnish::test;

namespace {

/// The program alone, without what belongs beside it.
class Companions : public BadInput {
 protected:
  void SetUp() override { fs::copy_file(test::kProgram, at("burnish")); }
  Outcome run_alone(const std::string& arguments, const std::string& environment = "") {
    return run_burnish(arguments, "BURNISH_LOG=error " + environment, at("burnish").string());
  }
};

}  // namespace

TEST_F(Companions, PicturesNameTheLibraryThatReadsThem) {
  for (const auto& [file, library] : {std::pair("rgb.tif", "libtiff6"), {"rgb.jxl", "libjxl0.7"}}) {
    fs::create_directories(at(library));
    fs::copy(kGolden.parent_path() / "data/formats" / file, at(library) / file);
    write(std::string(library) + "/rgb.txt", "a picture");
    auto outcome = run_alone("data " + quoted(at(library)));
    expect_one_error(outcome, 3, {file, "cannot be opened", library});
  }
}

TEST_F(Companions, RunsDoWithoutWhatTheyDoNotNeed) {
  auto outcome = run_alone("train " + golden_model() + "--height 32 --width 48 --lora_rank 2 --max_steps 1 --dataset_base_path " +
                           quoted(kGolden / "pictures") + " --output_path " + quoted(at("run")));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST_F(Companions, FetchingNamesTheLibraryThatFetches) {
  FakeHub hub;
  auto outcome = run_alone("train --model author/model --lora_rank 2 --max_steps 1 --dataset_base_path " + quoted(kGolden / "pictures") +
                               " --output_path " + quoted(at("run")),
                           "HF_ENDPOINT=" + hub.address() + " HF_HOME=" + quoted(at("hf")));
  expect_one_error(outcome, 2, {"libcurl", "cannot be opened", "libcurl4"});
}
