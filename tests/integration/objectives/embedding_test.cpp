// Textual inversion beside transformers and diffusers (tests/golden/make_embeddings.py), and the files of it that programs exchange.
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>

#include "tests/integration/families/stable_diffusion.h"
#include "tests/integration/parity.h"
#include "tests/integration/refused.h"

using namespace burnish;
using namespace burnish::test;

namespace {

struct Case {
  const char* name;
  const char* pipeline;
  std::vector<std::pair<std::string, std::string>> encoders;  ///< with the names that files of several encoders have
};

const Case kSd15{"sd15", "sd15_pipeline", {{"text_encoder", "emb_params"}}};
const Case kSdxl{"sdxl", "sdxl_pipeline", {{"text_encoder", "clip_l"}, {"text_encoder_2", "clip_g"}}};
const Case kFlux{"flux", "pipeline", {{"text_encoder", "clip_l"}, {"text_encoder_2", "t5"}}};

const std::string kWord = "--embedding_token '<it>' --embedding_length 2 --embedding_init red ";

bool is_flux(const Case& c) { return std::string(c.pipeline) == "pipeline"; }
std::string model(const Case& c) { return is_flux(c) ? golden_model() : sd_model(c.pipeline); }
std::string size(const Case& c) { return is_flux(c) ? "--height 48 --width 64 " : sd_size(c.pipeline); }
std::string data(const Case& c) { return (is_flux(c) ? golden_data() : sd_data(c.pipeline)) + "--caption_prefix '<it>' "; }

io::TensorSource expected() { return golden("embeddings.safetensors"); }

/// The file that a run of a word writes.
fs::path trained(const Case& c, const fs::path& out, int steps, const std::string& options, const std::string& word = kWord) {
  auto outcome = run_burnish("train " + model(c) + data(c) + word + "--loss_weighting uniform --max_steps " + std::to_string(steps) +
                             " --output_path '" + out.string() + "' " + options);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  return out / ("step-" + std::to_string(steps) + ".safetensors");
}

std::string replay(const Case& c) { return "--replay '" + golden_path(std::string(c.pipeline) + "/replay.safetensors") + "' "; }

/// The latents that prompts with the word draw.
at::Tensor drawn(const Case& c, const Scratch& folder, const std::string& options) {
  const auto file = folder / "latents.safetensors";
  std::string noise = golden_path(std::string(c.pipeline) + "/noise.safetensors");
  if (is_flux(c)) {
    noise = (folder / "noise.safetensors").string();
    io::save_safetensors(noise, {{"noise", golden("pipeline/expected.safetensors").tensor("noise")}});
  }
  auto outcome = run_burnish("sample " + model(c) + size(c) + "--prompt 'a <it> tree' --prompt '<it>' --num_inference_steps " +
                             (is_flux(c) ? "4 --embedded_guidance 3.5" : "5") + " --noise '" + noise + "' --save_latents '" +
                             file.string() + "' --output_path '" + (folder / "out").string() + "' " + options);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  return outcome.exit_code == 0 ? io::SafetensorsFile::open(file)->tensor("latents").clone() : at::Tensor();
}

/// Options of a run of words that a file has, "embedding_length = 2" say by word; they stand before every caption.
std::string words_of(const Scratch& folder, const std::vector<std::pair<std::string, std::string>>& words) {
  std::string text, prefix;
  for (const auto& [word, options] : words) {
    text += "[[embeddings]]\nembedding_token = '" + word + "'\n" + options + "\n";
    prefix += word + " ";
  }
  const auto file = folder.write("words.toml", text);
  return "--embedding_config '" + file.string() + "' --caption_prefix '" + prefix + "' ";
}

const std::string kRed = "embedding_length = 2\nembedding_init = 'red'", kTree = "embedding_length = 3\nembedding_init = 'a tree'";

at::Tensor tensor_in(const fs::path& file, const std::string& name) { return io::SafetensorsFile::open(file)->tensor(name).clone(); }

}  // namespace

class EmbeddingParity : public testing::TestWithParam<Case> {};

TEST_P(EmbeddingParity, TenStepsAndDrawingAreThoseOfDiffusers) {
  const auto& c = GetParam();
  Scratch folder;
  const auto file = trained(c, folder / "run", 10, replay(c) + "--learning_rate 1e-3");
  const auto source = expected();
  const std::string name = c.name;
  const auto log = read_log(folder / "run");
  expect_logged(log, "loss", source.tensor(name + ".loss"), 1e-5);
  expect_logged(log, "grad_norm", source.tensor(name + ".grad_norm"), 1e-4);
  for (const auto& [encoder, key] : c.encoders)
    EXPECT_LE(relative_error(tensor_in(file, key), source.tensor(name + ".vectors." + encoder)), tolerance(1e-4)) << encoder;
  EXPECT_LE(relative_error(drawn(c, folder, "--embedding '" + file.string() + "'"), source.tensor(name + ".latents")), tolerance(1e-4));
  EXPECT_GT(relative_error(drawn(c, folder, ""), source.tensor(name + ".latents")), 1e-2);
}

/// AdamW with an eps that no gradient comes near takes a thousand times the gradient off.
TEST_P(EmbeddingParity, TheFirstGradientIsThatOfTransformers) {
  const auto& c = GetParam();
  Scratch folder;
  const auto before = trained(c, folder / "before", 1, replay(c) + "--learning_rate 1e-30 --weight_decay 0");
  const auto after =
      trained(c, folder / "after", 1, replay(c) + "--learning_rate 1e9 --optimizer_args eps=1e6 --weight_decay 0 --max_grad_norm 0");
  for (const auto& [encoder, key] : c.encoders) {
    const auto gradient = (tensor_in(before, key) - tensor_in(after, key)) / 1000;
    EXPECT_LE(relative_error(gradient, expected().tensor(std::string(c.name) + ".grad." + encoder)), tolerance(1e-4)) << encoder;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, EmbeddingParity, testing::Values(kSd15, kSdxl, kFlux), [](const auto& info) { return info.param.name; });

TEST(EmbeddingsOfOneRun, TenStepsAndDrawingAreThoseOfDiffusers) {
  Scratch folder;
  const auto words = words_of(folder, {{"<it>", kRed}, {"<that>", kTree}});
  const auto source = golden("embeddings_of_two.safetensors");
  trained(kSd15, folder / "run", 10, replay(kSd15) + "--learning_rate 1e-3", words);
  const auto log = read_log(folder / "run");
  expect_logged(log, "loss", source.tensor("sd15.loss"), 1e-5);
  expect_logged(log, "grad_norm", source.tensor("sd15.grad_norm"), 1e-4);
  trained(kSd15, folder / "before", 1, replay(kSd15) + "--learning_rate 1e-30 --weight_decay 0", words);
  trained(kSd15, folder / "after", 1, replay(kSd15) + "--learning_rate 1e9 --optimizer_args eps=1e6 --weight_decay 0 --max_grad_norm 0",
          words);
  for (const std::string word : {"it", "that"}) {
    auto vectors = [&](const char* run, const char* step) {
      return tensor_in(folder / run / (std::string("step-") + step + "." + word + ".safetensors"), "emb_params");
    };
    const auto of_word = "text_encoder.<" + word + ">";
    EXPECT_LE(relative_error(vectors("run", "10"), source.tensor("sd15.vectors." + of_word)), tolerance(1e-4)) << word;
    EXPECT_LE(relative_error((vectors("before", "1") - vectors("after", "1")) / 1000, source.tensor("sd15.grad." + of_word)),
              tolerance(1e-4))
        << word;
  }
  const auto file = folder / "latents.safetensors";
  auto outcome = run_burnish("sample --run '" + (folder / "run").string() + "' " + sd_size("sd15_pipeline") +
                             "--prompt 'a <that> by <it>' --prompt '<that>' --num_inference_steps 5 --noise '" +
                             golden_path("sd15_pipeline/noise.safetensors") + "' --save_latents '" + file.string() + "' --output_path '" +
                             (folder / "out").string() + "'");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_LE(relative_error(tensor_in(file, "latents"), source.tensor("sd15.latents")), tolerance(1e-4));
}

/// What a word of a run on SD 1.5 becomes.
class Embedding : public testing::Test {
 protected:
  fs::path trained(const std::string& run, const std::string& options, int steps = 3) const {
    return ::trained(kSd15, folder / run, steps, "--learning_rate 1e-2 " + options);
  }
  at::Tensor drawn(const std::string& options) const { return ::drawn(kSd15, folder, options); }
  static std::string file(const fs::path& path) { return "--embedding '" + path.string() + "' "; }
  Scratch folder;
};

TEST_F(Embedding, FilesOfAllProgramsAreRead) {
  const auto web_ui = trained("a1111", "");
  const auto vectors = tensor_in(web_ui, "emb_params");
  EXPECT_EQ(io::SafetensorsFile::open(web_ui)->metadata().at("embedding_token"), "<it>");
  EXPECT_EQ(io::SafetensorsFile::open(web_ui)->tensors().size(), 1);
  const auto latents = drawn(file(web_ui));
  for (const auto& [format, name] : {std::pair("onetrainer", "emp_params"), {"diffusers", "<it>"}}) {
    const auto other = trained(format, std::string("--embedding_format ") + format);
    EXPECT_TRUE(at::equal(tensor_in(other, name), vectors)) << format;
    EXPECT_TRUE(at::equal(drawn(file(other)), latents)) << format;
  }
  // Without metadata a word is called as the file is, or as a tensor that has no other name.
  io::save_safetensors(folder / "<it>.safetensors", {{"clip_l", vectors}});
  EXPECT_TRUE(at::equal(drawn(file(folder / "<it>.safetensors")), latents));
  io::save_safetensors(folder / "word.safetensors", {{"<it>", vectors}});
  EXPECT_TRUE(at::equal(drawn(file(folder / "word.safetensors")), latents));
  io::save_safetensors(folder / "other.safetensors", {{"emb_params", vectors}});
  EXPECT_FALSE(at::equal(drawn(file(folder / "other.safetensors")), latents));
  EXPECT_TRUE(at::equal(drawn(file((folder / "other.safetensors").string() + ":<it>")), latents));
  EXPECT_TRUE(at::equal(drawn("--run '" + (folder / "a1111").string() + "' "), latents));
}

TEST_F(Embedding, ConvertBringsTheFilesIntoEachOther) {
  const auto bundled = trained("bundled", "--lora_base_model unet --lora_rank 4 --embedding_bundle");
  const auto vectors = tensor_in(bundled, "bundle_emb.<it>.clip_l");
  auto converted = [&](const fs::path& from, const std::string& name, const std::string& options) {
    const auto to = folder / name;
    auto outcome = run_burnish("convert '" + from.string() + "' '" + to.string() + "' " + options);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return to;
  };
  const auto alone = converted(bundled, "alone.safetensors", "--embedding_format a1111");
  EXPECT_TRUE(at::equal(tensor_in(alone, "emb_params"), vectors));
  const auto diffusers = converted(alone, "diffusers.safetensors", "--embedding_format diffusers");
  EXPECT_TRUE(at::equal(tensor_in(diffusers, "<it>"), vectors));
  EXPECT_TRUE(at::equal(tensor_in(converted(diffusers, "back.safetensors", ""), "emb_params"), vectors));
  for (const auto& file : {bundled, alone, diffusers}) {
    auto outcome = run_burnish("inspect '" + file.string() + "'");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    EXPECT_NE(outcome.output.find("<it>: "), std::string::npos) << outcome.output;
  }
}

TEST_F(Embedding, GoesOnBitForBit) {
  const auto whole = trained("whole", "--max_steps 4", 4);
  trained("halves", "", 2);
  const auto again = trained("halves", "--resume", 4);
  EXPECT_TRUE(at::equal(tensor_in(whole, "emb_params"), tensor_in(again, "emb_params")));
}

TEST_F(Embedding, BesideALoraIsAFileOfItsOwnOrInIts) {
  const std::string lora = "--lora_base_model unet --lora_rank 4 ";
  const auto apart = trained("apart", lora);
  const auto own = folder / "apart/step-3.embedding.safetensors";
  const auto bundled = trained("bundled", lora + "--embedding_bundle");
  EXPECT_FALSE(fs::exists(folder / "bundled/step-3.embedding.safetensors"));
  EXPECT_TRUE(at::equal(tensor_in(bundled, "bundle_emb.<it>.clip_l"), tensor_in(own, "emb_params")));
  const auto with_both = drawn("--lora '" + apart.string() + "' " + file(own));
  EXPECT_TRUE(at::equal(drawn("--lora '" + bundled.string() + "' " + file(bundled)), with_both));
  for (const char* run : {"apart", "bundled"}) EXPECT_TRUE(at::equal(drawn("--run '" + (folder / run).string() + "' "), with_both));
  EXPECT_FALSE(at::equal(drawn("--lora '" + apart.string() + "' "), with_both));
  // A rate of its own leaves the LoRA as it is.
  const auto slower = trained("slower", lora + "--embedding_learning_rate 1e-30 --max_steps 1 --weight_decay 0", 1);
  const auto faster = trained("faster", lora + "--max_steps 1 --weight_decay 0", 1);
  const auto adapters = io::SafetensorsFile::open(slower);
  for (const auto& [name, info] : adapters->tensors()) EXPECT_TRUE(at::equal(tensor_in(slower, name), tensor_in(faster, name))) << name;
  EXPECT_FALSE(at::equal(tensor_in(folder / "slower/step-1.embedding.safetensors", "emb_params"),
                         tensor_in(folder / "faster/step-1.embedding.safetensors", "emb_params")));
}

TEST_F(Embedding, KeepsTheNormOfTheVocabulary) {
  const auto vectors = tensor_in(trained("kept", "--embedding_keep_norm"), "emb_params");
  const auto table = io::TensorSource::open({golden_path("sd15_pipeline/model/text_encoder/model.safetensors")});
  at::Tensor weight;
  for (const auto& name : table.names()) {
    if (name.ends_with("token_embedding.weight")) weight = table.tensor(name).to(at::kFloat);
  }
  const auto median = std::get<0>(weight.norm(2, 1).sort())[(weight.size(0) - 1) / 2].item<double>();
  for (int64_t i = 0; i < 2; ++i) EXPECT_NEAR(vectors[i].norm().item<double>() / median, 1, 1e-5);
  EXPECT_GT(std::abs(tensor_in(trained("free", ""), "emb_params")[0].norm().item<double>() / median - 1), 1e-3);
}

TEST_F(Embedding, BeginsWithAFile) {
  const auto first = trained("first", "");
  const auto still =
      trained("still", "--embedding_length 1 --weight_decay 0 --learning_rate 1e-30 --embedding_checkpoint '" + first.string() + "'");
  EXPECT_TRUE(at::equal(tensor_in(still, "emb_params"), tensor_in(first, "emb_params")));
}

TEST_F(Embedding, OutputsLeaveTheEncoderFrozen) {
  const auto cache = "--cache_path '" + (folder / "cache").string() + "' ";
  const auto output = trained("output", "--embedding_output " + cache);
  const auto states = tensor_in(output, "emb_params_out");
  EXPECT_TRUE(at::equal(tensor_in(output, "emb_params"), at::zeros_like(states)));
  EXPECT_FALSE(at::equal(drawn(file(output)), drawn("")));
  // What is kept of the captions serves the next run, which goes as the first did.
  auto again = run_burnish("train " + model(kSd15) + data(kSd15) + kWord + cache +
                           "--embedding_output --loss_weighting uniform --learning_rate 1e-2 --max_steps 3 --output_path '" +
                           (folder / "again").string() + "'");
  ASSERT_EQ(again.exit_code, 0) << again.output;
  EXPECT_EQ(again.output.find("in memory while training: text_encoder,"), std::string::npos) << again.output;
  EXPECT_EQ(losses(folder / "output"), losses(folder / "again"));
  const auto live = trained("live", "--embedding_output --precompute none");
  EXPECT_LE(relative_error(tensor_in(live, "emb_params_out"), states), 1e-5);
}

/// Of several words each trains by its own options and has a file, beside a LoRA too; a LoRA's file holds all.
TEST_F(Embedding, SeveralWordsOfARun) {
  const std::string states = "embedding_output = true\n" + kTree;
  const std::vector<std::pair<std::string, std::string>> list{
      {"<it>", kRed}, {"<that>", states}, {"<it!>", "embedding_learning_rate = 1e-30"}};
  auto run = [&](const std::string& name, const std::string& options, int steps = 3) {
    ::trained(kSd15, folder / name, steps, "--learning_rate 1e-2 --weight_decay 0 " + options, words_of(folder, list));
    return folder / name;
  };
  const auto alone = run("alone", "");
  auto of_word = [&](const std::string& name, const char* word, const char* tensor) {
    return tensor_in(folder / name / (std::string("step-") + word + ".safetensors"), tensor);
  };
  EXPECT_TRUE(at::equal(of_word("alone", "3.that", "emb_params"), at::zeros_like(of_word("alone", "3.that", "emb_params_out"))));
  EXPECT_EQ(of_word("alone", "3.it", "emb_params").size(0), 2);
  EXPECT_EQ(io::SafetensorsFile::open(alone / "step-3.it-2.safetensors")->metadata().at("embedding_token"), "<it!>");

  // A run that goes on goes as one that did not stop; a word whose rate is 0 stays.
  run("halves", "", 2);
  run("halves", "--resume", 3);
  run("still", "--lr_groups 'text_encoder.embeddings.token_embedding.added.<it>=0,words=0'");
  for (const auto& [word, tensor] : {std::pair("3.it", "emb_params"), {"3.that", "emb_params_out"}, {"3.it-2", "emb_params"}}) {
    EXPECT_TRUE(at::equal(of_word("alone", word, tensor), of_word("halves", word, tensor))) << word;
    const auto first = of_word("still", word, tensor), last = of_word("alone", word, tensor);
    EXPECT_EQ(at::equal(first, last), std::string(word) == "3.it-2") << word << ": its own rate is as good as none";
  }

  // Files of all words draw as the run does, and so does one of a LoRA that holds them.
  const auto drawn_alone = drawn("--run '" + alone.string() + "' ");
  EXPECT_TRUE(at::equal(drawn(file(alone / "step-3.it.safetensors") + file(alone / "step-3.that.safetensors")), drawn_alone));
  EXPECT_FALSE(at::equal(drawn(file(alone / "step-3.that.safetensors")), drawn_alone));
  const std::string lora = "--lora_base_model unet --lora_rank 4 ";
  const auto beside = run("beside", lora), bundled = run("bundled", lora + "--embedding_bundle");
  EXPECT_TRUE(fs::exists(beside / "step-3.embedding.it-2.safetensors"));
  const auto with_both = drawn("--run '" + beside.string() + "' ");
  EXPECT_TRUE(at::equal(drawn("--run '" + bundled.string() + "' "), with_both));
  EXPECT_FALSE(at::equal(with_both, drawn_alone));

  for (const auto& one : {alone, beside}) {
    auto card = run_burnish("card '" + one.string() + "'");
    EXPECT_EQ(card.exit_code, 0) << card.output;
    EXPECT_TRUE(fs::exists(one / "card" / (one == alone ? "step-3.that.safetensors" : "step-3.embedding.that.safetensors")));
  }

  // Words of a file of several are taken out of it by name.
  const auto all = (bundled / "step-3.safetensors").string();
  auto converted = run_burnish("convert '" + all + ":<that>' '" + (folder / "that.safetensors").string() + "' --embedding_format a1111");
  EXPECT_EQ(converted.exit_code, 0) << converted.output;
  EXPECT_TRUE(at::equal(tensor_in(folder / "that.safetensors", "emb_params_out"), tensor_in(all, "bundle_emb.<that>.clip_l_out")));
  const std::string still = "--learning_rate 1e-30 --weight_decay 0 --embedding_checkpoint '" + all;
  const auto own = ::trained(kSd15, folder / "own", 1, still + "'", "--embedding_token '<it>' "),
             other = ::trained(kSd15, folder / "other", 1, still + ":<it>'", "--embedding_token '<them>' --caption_prefix '<them>' ");
  for (const auto& again : {own, other}) EXPECT_TRUE(at::equal(tensor_in(again, "emb_params"), tensor_in(all, "bundle_emb.<it>.clip_l")));
}

TEST_F(Embedding, WhatMeansNothingIsRefused) {
  auto refused_with = [&](const std::string& options, const std::string& text, int code = 2) {
    auto outcome =
        run_burnish("train " + model(kSd15) + data(kSd15) + "--max_steps 1 --output_path '" + (folder / "run").string() + "' " + options);
    EXPECT_EQ(outcome.exit_code, code) << options << outcome.output;
    EXPECT_NE(outcome.output.find(text), std::string::npos) << options << outcome.output;
  };
  refused_with("--embedding_length 2", "belongs to embedding_token");
  refused_with("--embedding_token 'two words'", "white space");
  refused_with("--embedding_token x --embedding_bundle", "lora_base_model");
  refused_with("--embedding_token x --embedding_models vae", "learns no words");
  refused_with("--embedding_token x --embedding_output --embedding_keep_norm", "take one of them out");
  io::save_safetensors(folder / "wide.safetensors", {{"clip_l", at::ones({1, 8})}});
  refused_with("--embedding_token x --embedding_checkpoint '" + (folder / "wide.safetensors").string() + "'", "for another model", 3);
  refused_with("--caption_prefix 'x ' --embedding_token x --embedding_init 'a x'", "holds a word that trains");
  const auto words = words_of(folder, {{"<it>", kRed}, {"<it>", kTree}});
  refused_with(words, "two tables of '<it>'");
  refused_with(words + "--embedding_token x", "embedding_config all of them");
  refused_with(words_of(folder, {{"", kRed}}), "a table without embedding_token");
  refused_with(words_of(folder, {{"<it>", "embedding_length = 65"}}), "embedding_length must be at most 64");
  refused_with(words_of(folder, {}), "holds no [[embeddings]]");
  io::save_safetensors(folder / "two.safetensors",
                       {{"bundle_emb.a.clip_l", at::ones({1, 16})}, {"bundle_emb.b.clip_l", at::ones({1, 16})}});
  refused_with("--embedding_token x --embedding_checkpoint '" + (folder / "two.safetensors").string() + "'", "'x' is none of them");
  refused_with("--embedding_token x --embedding_checkpoint '" + (folder / "two.safetensors").string() + ":c'", "none of 'c'", 3);
  auto lacking = run_burnish("train " + model(kSd15) + sd_data("sd15_pipeline") + kWord + "--max_steps 1 --output_path '" +
                             (folder / "lacking").string() + "'");
  EXPECT_EQ(lacking.exit_code, 3) << lacking.output;
  EXPECT_NE(lacking.output.find("no caption holds '<it>'"), std::string::npos) << lacking.output;
}
