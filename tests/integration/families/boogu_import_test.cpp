// Settings of other programs for Boogu-Image, imported and trained with.
#include "tests/integration/families/boogu.h"
#include "tests/integration/options/import_verb.h"

namespace burnish::boogu_import_test {
using namespace burnish::test;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(ImportVerb, SettingsOfBooguImage) {
  const auto model = (kBoogu / "model").string();
  auto of_ai_toolkit = [&](const std::string& arch, const std::string& kwargs) {
    return "config:\n  process:\n    - type: diffusion_trainer\n      network: {type: lora, linear: 4}\n      datasets:\n        - "
           "{folder_path: x}\n      train: {noise_scheduler: flowmatch, dtype: bf16, steps: 4, timestep_type: shift}\n      model: "
           "{name_or_path: " +
           model + ", arch: " + arch + ", model_kwargs: {" + kwargs + "}}\n";
  };
  EXPECT_THAT(import_file("job.yaml", of_ai_toolkit("boogu_image", ""), "--overwrite"), Not(HasSubstr("is trained here")));
  EXPECT_THAT(toml(), AllOf(HasSubstr("max_sequence_length = 1024"), HasSubstr("timestep_sampling = \"sigma\""),
                            Not(HasSubstr("reference_pixels")), Not(HasSubstr("extra_inputs"))));
  EXPECT_THAT(
      starts("--dataset_metadata_path " + quoted(kGolden / "pictures/metadata.csv") + " --dtype fp32 --overwrite --max_pixels 4096", ""),
      HasSubstr("on "));
  import_file("job.yaml", of_ai_toolkit("boogu_image_edit", "max_text_length: 300"), "--overwrite");
  EXPECT_THAT(toml(), AllOf(HasSubstr("max_sequence_length = 300"), HasSubstr("extra_inputs = \"edit_image\""),
                            HasSubstr("reference_pixels = 1048576")));
  import_file("job.yaml", of_ai_toolkit("boogu_image_edit", "control_image_max_pixels: 65536"), "--overwrite");
  EXPECT_THAT(toml(), HasSubstr("reference_pixels = 65536"));
}

}  // namespace burnish::boogu_import_test
