// FIBO 2 in the whole program beside diffusers and peft: sampled latents and replayed training steps (tests/golden/make_fibo2.py).
#include "tests/integration/families/fibo2.h"
#include "tests/integration/parity.h"
#include "tests/integration/runs.h"

namespace burnish::fibo2_parity_test {
using namespace burnish::test;

namespace {

const std::string kLong = "'tree of the north, a cat face, smiling, a red apple on the tree, and a cat on it' ";
const std::string kPrompts = "--prompt 'red apple' --prompt " + kLong;
/// Of more than 256 tokens, so that its gist is longer than that of the other prompt of its batch.
const std::string kJson =
    R"('{"short_description": "a red apple on the tree of the north, and a cat on it with a red apple, which it eats", "objects": )"
    R"([{"description": "a cat face, smiling", "location": "center", "relationship": ""}], "background_setting": "tree of the north, )"
    R"(a cat face, smiling, a red apple on the tree, and a cat on it, a tree behind the cat, and a face on the tree", "lighting": {}, )"
    R"("aesthetics": {"mood": "cat", "aesthetic_score": 7.5}, "context": "", "preference_score": "high", )"
    R"("text_render": [{"text": "", "location": "on the tree"}], "artistic_style": null}' )";
const std::string kEdit = R"('{"edit_instruction": "a red cat", "short_description": "a red cat on a tree", "context": ""}' )";
const fs::path kReferencePictures = golden_path("references");

std::string reference(const char* name) { return "--reference '" + (kReferencePictures / name).string() + "' "; }
const std::string kBoth = reference("a.png") + reference("b.png");

void expect_drawn(const std::string& name, const std::string& options, double bound = 1e-5) {
  test::expect_latents(kFibo2, name, fibo2_model() + options, bound);
}
/// Under guidance, which makes more of what is rounded.
void expect_guided(const std::string& name, const std::string& options) { expect_drawn(name, options + "--cfg_scale 2.5 ", 2e-5); }

void expect_trained(const std::string& name, const std::string& options, const std::string& data = golden_data(), double bound = 5e-6) {
  test::expect_steps(kFibo2, name, fibo2_model() + data + "--loss_weighting uniform " + options, bound);
}

const std::string kLoraFile = "'" + (kFibo2 / "lora.safetensors").string() + "' ", kLora = "--lora_checkpoint " + kLoraFile;

}  // namespace

TEST(Fibo2SampleParity, FourSteps) { expect_drawn("latents.plain", kPrompts); }
TEST(Fibo2SampleParity, OneAtATime) { expect_drawn("latents.plain", kPrompts + "--batch_size 1"); }
TEST(Fibo2SampleParity, Guidance) { expect_guided("latents.cfg", kPrompts + "--negative_prompt cat "); }
TEST(Fibo2SampleParity, GuidanceAwayFromTheEmptyCaption) { expect_guided("latents.cfg_empty", kPrompts); }
TEST(Fibo2SampleParity, ACaptionThatIsJson) { expect_drawn("latents.json", "--prompt " + kJson + "--prompt 'red apple'"); }
TEST(Fibo2SampleParity, WithLora) { expect_drawn("latents.lora", kPrompts + "--lora " + kLoraFile); }
TEST(Fibo2SampleParity, ReferencePictures) { expect_drawn("latents.references", kPrompts + kBoth); }
TEST(Fibo2SampleParity, AReferencePictureAndACaptionThatIsJson) {
  expect_drawn("latents.reference", "--prompt " + kEdit + "--prompt 'red apple' " + reference("b.png"));
}
TEST(Fibo2SampleParity, GuidanceWithReferencePictures) { expect_guided("latents.references_cfg", kPrompts + kBoth); }

TEST(Fibo2ReplayParity, Lora) { expect_trained("lora", kLora); }
TEST(Fibo2ReplayParity, LoraCheckpointed) { expect_trained("lora", kLora + "--use_gradient_checkpointing"); }
// All weights at 1e-3 move so far in ten steps that rounding grows: 1e-5 at the last without vector instructions, 1e-7 with AVX2.
TEST(Fibo2ReplayParity, Full) { expect_trained("full", "--trainable_models dit", golden_data(), 2e-5); }
TEST(Fibo2ReplayParity, ReferencePictures) {
  Scratch folder;
  write_rows_with_references(folder / "data.jsonl", kReferencePictures);
  const auto data = "--dataset_metadata_path '" + (folder / "data.jsonl").string() + "' ";
  expect_trained("references", kLora + "--extra_inputs edit_image ", data);
}

}  // namespace burnish::fibo2_parity_test
