// Parity of Step1X-Edit's parts with DiffSynth-Studio's on a small random model (tests/golden/make_step1x.py).
#include "models/families/flux/step1x.h"

#include <nlohmann/json.hpp>

#include "io/json.h"
#include "models/parts/shared_components.h"
#include "models/text/resample.h"
#include "tests/golden.h"
#include "tests/models/load.h"

namespace burnish::step1x_test {
using namespace burnish::models;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

const std::string kGoldenStep1x = "step1x/";

struct Prompt {
  std::string text;
  at::Tensor ids;
  int64_t num_states;
};

Prompt golden_prompt(int64_t row) {
  auto rows = io::read_json(test::golden_path(kGoldenStep1x + "metadata.json"));
  auto file = test::golden(kGoldenStep1x + "text.safetensors");
  return {rows[static_cast<size_t>(row)]["prompt"].get<std::string>(), file.tensor(std::to_string(row) + ".ids").to(at::kLong),
          file.tensor(std::to_string(row) + ".count").item<int64_t>()};
}

}  // namespace

TEST(Step1x, ReadsQuotesLetterByLetter) {
  auto tokenizer = tokenizers::load_qwen(test::golden_path(kGoldenStep1x + "qwen"));
  auto pad = tokenizer->encode_bare("<|image_pad|>").at(0);
  for (int64_t row = 0; row < 4; ++row) {
    auto [prompt, ids, num_states] = golden_prompt(row);
    auto num_seen = (ids == pad).sum().item<int64_t>();
    auto text = flux::step1x_text(*tokenizer, prompt, at::zeros({1, num_seen, 16}), 640);
    auto found = at::tensor(text.ids, at::kLong);
    found.narrow(0, text.picture.first, num_seen).fill_(pad);
    EXPECT_TRUE(at::equal(found, ids)) << prompt;
    EXPECT_EQ(std::min<int64_t>(640, ids.size(0) - text.num_dropped), num_states);
  }
  auto seen = at::zeros({4, 4, 16});
  auto text = flux::step1x_text(*tokenizer, "red apple", seen, 30);
  EXPECT_EQ(std::ssize(text.ids), text.num_dropped + 30);
}

TEST(Step1x, ConnectsTextsAsInDiffSynthStudio) {
  auto weights = test::golden(kGoldenStep1x + "step1x.safetensors").below(flux::kConnectorPrefix);
  auto config = flux::Connector::detect(weights.shapes());
  EXPECT_EQ(config.num_blocks, 2);
  EXPECT_EQ(config.num_features, 16);
  flux::Connector connector(config, at::TensorOptions().device(at::kMeta));
  test::load(connector, weights);
  auto states = on_device(test::golden(kGoldenStep1x + "text.safetensors").tensor("0.states"));
  auto missing = 640 - states.size(0);
  auto padded = at::constant_pad_nd(states, {0, 0, 0, missing}).unsqueeze(0);
  auto mask = at::constant_pad_nd(at::ones({1, states.size(0)}, states.options()), {0, missing});
  auto [text, pooled] = connector.forward(padded, mask, on_device(at::tensor({0.3F})));
  auto expected = test::golden(kGoldenStep1x + "expected.safetensors");
  EXPECT_LE(relative_error(text, expected.tensor("connector.text")), tolerance(1e-5));
  EXPECT_LE(relative_error(pooled, expected.tensor("connector.pooled")), tolerance(1e-5));
}

}  // namespace burnish::step1x_test
