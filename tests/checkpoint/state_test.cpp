#include "checkpoint/state.h"

#include <ATen/ATen.h>
#include <fmt/core.h>
#include <gmock/gmock.h>

#include <fstream>

#include "io/safetensors.h"
#include "tests/device.h"
#include "tests/scratch.h"

using namespace burnish;
using test::error_of;
using test::Scratch;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {

/// Two parameters, trained for a few steps by their own gradients.
struct Trained {
  optim::ParameterList parameters;
  std::unique_ptr<optim::Optimizer> optimizer;

  explicit Trained(uint64_t seed, std::vector<std::string> names = {"a.weight", "b.bias"}) {
    at::manual_seed(seed);
    for (const auto& name : names) parameters.push_back({name, test::on_device(at::randn({3, 4}))});
    optimizer = optim::make_optimizer({}, parameters);
  }
  void step(int count) {
    for (int i = 0; i < count; ++i) {
      for (auto& p : parameters) p.value.mutable_grad() = p.value * 0.5 + 1;
      optimizer->step(0.01);
    }
  }
  /// Everything it holds, copied.
  optim::StateList all() const {
    optim::StateList list;
    for (const auto& p : parameters) list.emplace_back(p.name, p.value.detach().clone());
    for (const auto& [name, value] : optimizer->state()) list.emplace_back(name, value.clone());
    return list;
  }
};

void expect_equal(const optim::StateList& found, const optim::StateList& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].first, expected[i].first);
    EXPECT_TRUE(at::equal(found[i].second, expected[i].second)) << found[i].first;
  }
}

/// What load_state says; it must leave everything as it was.
std::string refusal(const Scratch& scratch, Trained& trained, const std::string& fingerprint = "rank=4") {
  auto before = trained.all();
  auto text = error_of([&] { checkpoint::load_state(scratch.path(), {*trained.optimizer}, fingerprint); });
  expect_equal(trained.all(), before);
  return text;
}

}  // namespace

TEST(State, GoesOnBitForBit) {
  Scratch scratch;
  Trained first(1);
  first.step(3);
  checkpoint::save_state(scratch.path(), checkpoint::state_of({*first.optimizer}, {3, 12, "rank=4"}));
  EXPECT_EQ(scratch.num_files(), 1u);

  Trained second(2);
  second.step(1);
  auto progress = checkpoint::load_state(scratch.path(), {*second.optimizer}, "rank=4");
  EXPECT_EQ(progress.step, 3);
  EXPECT_EQ(progress.batch, 12);
  EXPECT_EQ(progress.fingerprint, "rank=4");
  expect_equal(second.all(), first.all());
  first.step(4);
  second.step(4);
  expect_equal(second.all(), first.all());
}

TEST(State, AnotherRunsStateIsRefused) {
  Scratch scratch;
  Trained saved(1), other(2);
  saved.step(2);
  other.step(1);
  EXPECT_THAT(refusal(scratch, other), HasSubstr("nothing to resume"));
  checkpoint::save_state(scratch.path(), checkpoint::state_of({*saved.optimizer}, {2, 2, "rank=8"}));
  EXPECT_THAT(refusal(scratch, other),
              AllOf(HasSubstr("state.safetensors"), HasSubstr("it was saved with rank=8, and this run has rank=4; resume")));
}

TEST(State, OtherSamplesAreNamedAndNotTheirHashes) {
  Scratch scratch;
  Trained saved(1);
  saved.step(2);
  const std::string run = "seed 0, pictures with captions and sizes ";
  checkpoint::Progress progress{2, 2, run + "00000001, weights of the model 0000000a"};
  auto said = [&](const std::string& fingerprint, const std::string& samples) {
    checkpoint::save_state(scratch.path(), checkpoint::state_of({*saved.optimizer}, progress));
    return error_of([&] { checkpoint::read_progress(scratch.path(), fingerprint, samples); });
  };
  const std::string here = run + "00000002, weights of the model 0000000b";
  EXPECT_THAT(said(here, "sizes 8x8 (1), captions 0000000c"),
              HasSubstr("settings: it was saved with other pictures with captions and sizes and weights of the model; resume"))
      << "a state of an earlier version";
  progress.samples = "sizes 8x8 (1), captions 0000000c, pictures 00000001";
  EXPECT_THAT(said(here, "sizes 8x8 (1), captions 0000000d, pictures 00000001"),
              HasSubstr("settings: it was saved with other weights of the model and captions; resume"));
  EXPECT_THAT(said(here, "sizes 4x4 (1), captions 0000000c, pictures 00000001"),
              HasSubstr("other weights of the model; it was saved with sizes 8x8 (1), and this run has sizes 4x4 (1); resume"));
}

TEST(State, OtherParametersAreRefused) {
  Scratch scratch;
  Trained saved(1);
  saved.step(2);
  checkpoint::save_state(scratch.path(), checkpoint::state_of({*saved.optimizer}, {2, 2, "rank=4"}));
  Trained more(2, {"a.weight", "b.bias", "c.weight"}), fewer(2, {"a.weight"});
  EXPECT_THAT(refusal(scratch, more), AllOf(HasSubstr("state.safetensors"), HasSubstr("1 missing (c.weight)")));
  EXPECT_THAT(refusal(scratch, fewer), AllOf(HasSubstr("state.safetensors"), HasSubstr("1 unexpected (b.bias)")));
  Trained reshaped(2);
  reshaped.parameters[0].value = at::randn({4, 3});
  reshaped.optimizer = optim::make_optimizer({}, reshaped.parameters);
  EXPECT_THAT(refusal(scratch, reshaped), HasSubstr("a.weight is [3, 4] instead of [4, 3]"));
}

TEST(State, CutShortIsNamedAndChangesNothing) {
  Scratch scratch;
  Trained trained(1);
  trained.step(2);
  checkpoint::save_state(scratch.path(), checkpoint::state_of({*trained.optimizer}, {2, 2, "rank=4"}));
  auto whole = test::content(scratch / "state.safetensors");
  trained.step(1);
  for (size_t length = 0; length < whole.size(); length += 97) {
    scratch.write("state.safetensors", whole.substr(0, length));
    EXPECT_THAT(refusal(scratch, trained), HasSubstr("state.safetensors"));
  }
}

TEST(State, MissingPiecesChangeNothing) {
  Scratch scratch;
  Trained trained(1);
  trained.step(2);
  io::NamedTensors whole;
  for (const auto& p : trained.parameters) whole.emplace_back("parameter." + p.name, at::zeros({3, 4}));
  for (const auto& [name, value] : trained.optimizer->state()) whole.emplace_back("optimizer." + name, at::zeros_like(value));
  io::Metadata metadata{{"step", "2"}, {"batch", "4"}, {"fingerprint", "rank=4"}};
  for (size_t left_out = 0; left_out < whole.size(); ++left_out) {
    auto part = whole;
    part.erase(part.begin() + static_cast<std::ptrdiff_t>(left_out));
    io::save_safetensors(scratch / "state.safetensors", part, metadata);
    EXPECT_THAT(refusal(scratch, trained), AllOf(HasSubstr("state.safetensors"), HasSubstr("1 missing")));
  }
  for (const char* key : {"step", "batch"}) {
    for (const char* value : {"", "two", "-1", "2x", "99999999999999999999"}) {
      auto damaged = metadata;
      damaged[key] = value;
      io::save_safetensors(scratch / "state.safetensors", whole, damaged);
      EXPECT_THAT(refusal(scratch, trained), HasSubstr(fmt::format("gives no '{}'", key))) << value;
    }
  }
  io::save_safetensors(scratch / "state.safetensors", whole, {});
  EXPECT_THAT(refusal(scratch, trained), HasSubstr("is no saved state"));
  io::save_safetensors(scratch / "state.safetensors", whole, metadata);
  EXPECT_EQ(checkpoint::load_state(scratch.path(), {*trained.optimizer}, "rank=4").batch, 4);
}

TEST(State, HoldsMovingAverages) {
  Scratch scratch;
  Trained first(1);
  optim::Ema average(first.optimizer->parameters());
  first.step(2);
  average.update(0.9);
  checkpoint::save_state(scratch.path(), checkpoint::state_of({*first.optimizer, &average}, {2, 2, "rank=4"}));

  Trained second(2);
  optim::Ema resumed(second.optimizer->parameters());
  checkpoint::load_state(scratch.path(), {*second.optimizer, &resumed}, "rank=4");
  expect_equal(second.all(), first.all());
  expect_equal(resumed.state(), average.state());
}

TEST(State, WithoutTheAveragesOfARunChangesNothing) {
  Scratch scratch;
  Trained saved(1), trained(2);
  checkpoint::save_state(scratch.path(), checkpoint::state_of({*saved.optimizer}, {2, 2, "rank=4"}));
  optim::Ema average(trained.optimizer->parameters());
  auto before = trained.all();
  auto text = error_of([&] { checkpoint::load_state(scratch.path(), {*trained.optimizer, &average}, "rank=4"); });
  EXPECT_THAT(text, HasSubstr("moving averages"));
  expect_equal(trained.all(), before);
}

TEST(State, PartsOfOwnersAreOneState) {
  Scratch scratch;
  Trained whole(1);
  whole.step(3);
  for (int64_t part = 0; part < 2; ++part) {
    Trained mine(1);
    for (int64_t i = 0; i < 2; ++i) mine.parameters[static_cast<size_t>(i)].owned = i == part;
    mine.optimizer = optim::make_optimizer({}, mine.parameters);
    mine.step(3);
    checkpoint::save_part(scratch.path(), checkpoint::state_of({*mine.optimizer}, {3, 12, "rank=4"}), part, 2);
    EXPECT_FALSE(checkpoint::is_there(scratch.path())) << "before all parts are published";
  }
  checkpoint::publish(scratch.path(), 3, 2);
  Trained second(2);
  EXPECT_EQ(checkpoint::load_state(scratch.path(), {*second.optimizer}, "rank=4").step, 3);
  expect_equal(second.all(), whole.all());

  Trained other(3);  // owns the second parameter alone
  other.parameters[0].owned = false;
  other.optimizer = optim::make_optimizer({}, other.parameters);
  auto unowned = other.parameters[0].value.clone();
  checkpoint::load_state(scratch.path(), {*other.optimizer}, "rank=4");
  EXPECT_TRUE(at::equal(other.parameters[1].value, whole.parameters[1].value));
  EXPECT_TRUE(at::equal(other.parameters[0].value, unowned));

  checkpoint::save_state(scratch.path(), checkpoint::state_of({*whole.optimizer}, {4, 16, "rank=4"}));
  EXPECT_EQ(scratch.num_files(), 1u) << "parts of the older state";
  EXPECT_EQ(checkpoint::read_progress(scratch.path(), "rank=4").step, 4);
}

TEST(State, ABitThatFlippedIsNotTrainedOn) {
  Scratch scratch;
  Trained trained(1);
  trained.step(3);
  checkpoint::save_state(scratch.path(), checkpoint::state_of({*trained.optimizer}, {3, 12, "rank=4"}));
  auto path = scratch / "state.safetensors";
  auto size = std::filesystem::file_size(path);
  for (auto place : {size - 1, size - 50, size / 2 + size / 4}) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    auto flip = [&] {
      file.seekg(static_cast<std::streamoff>(place));
      auto byte = static_cast<char>(file.get() ^ 4);
      file.seekp(static_cast<std::streamoff>(place));
      file.put(byte);
      file.flush();
    };
    flip();
    EXPECT_THAT(refusal(scratch, trained), HasSubstr("is damaged: its bytes are not those that were saved")) << place;
    flip();
  }
  checkpoint::load_state(scratch.path(), {*trained.optimizer}, "rank=4");
}
