// Samples of a batch that differ: prompts of unequal length and their mask, lists of tensors, and what a schedule makes of them.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <stdexcept>

#include "pipeline/schedule.h"

namespace burnish::join_test {
using namespace burnish::pipeline;

namespace {

at::Tensor tensor_of(const Value& value) { return std::get<at::Tensor>(value); }

at::Tensor words(int64_t length, double number) { return at::full({1, length, 2}, number); }

}  // namespace

TEST(Join, PutsTensorsInARowAndKeepsASingleValue) {
  auto joined = tensor_of(join("x", {at::zeros({1, 3}), at::ones({1, 3})}));
  EXPECT_TRUE(at::equal(joined, at::tensor({0.0f, 0.0f, 0.0f, 1.0f, 1.0f, 1.0f}).view({2, 3})));
  EXPECT_EQ(std::get<std::string>(join("prompt", {std::string("cat")})), "cat");
  EXPECT_EQ(tensor_of(join("rate", {at::scalar_tensor(24), at::scalar_tensor(24)})).dim(), 0);
  auto alone = words(3, 1);
  EXPECT_TRUE(tensor_of(join("x", {alone}, /*padded=*/true)).is_same(alone));
}

TEST(Join, RefusesTextsAndLengthsThatDifferUnsaid) {
  EXPECT_THROW(join("prompt", {std::string("a"), std::string("b")}), std::logic_error);
  EXPECT_THROW(join("rate", {at::scalar_tensor(24), at::scalar_tensor(12)}), std::logic_error);
  EXPECT_ANY_THROW(join("x", {words(2, 1), words(3, 1)}));
  EXPECT_ANY_THROW(join("x", {at::ones({1, 2, 4}), at::ones({1, 3, 5})}, /*padded=*/true)) << "only the length may differ";
}

TEST(Join, FillsShorterOnesWithZerosSoThatOnesBecomeTheirMask) {
  std::vector<Value> texts{words(2, 5), words(4, 7), words(1, 9)},
      ones{at::ones({1, 2}, at::kBool), at::ones({1, 4}, at::kBool), at::ones({1, 1}, at::kBool)};
  auto text_BLE = tensor_of(join("text", texts, true)), mask_BL = tensor_of(join("mask", ones, true));
  EXPECT_EQ(text_BLE.sizes(), at::IntArrayRef({3, 4, 2}));
  EXPECT_EQ(mask_BL.scalar_type(), at::kBool);
  EXPECT_TRUE(at::equal(mask_BL.to(at::kInt).sum(1), at::tensor({2, 4, 1})));
  EXPECT_TRUE(at::equal(text_BLE.ne(0).select(2, 0), mask_BL)) << "the mask is true where there is text";
  EXPECT_TRUE(at::equal(text_BLE.select(0, 0).slice(0, 0, 2), words(2, 5)[0]));
}

TEST(Join, KeepsTheListOfEachSample) {
  TensorLists two{{at::ones({1, 3, 4, 4}), at::ones({1, 3, 2, 6})}}, none{{}};
  auto joined = std::get<TensorLists>(join("references", {two, none, two}));
  ASSERT_EQ(joined.size(), 3u);
  EXPECT_EQ(joined[0].size(), 2u);
  EXPECT_TRUE(joined[1].empty());
  EXPECT_EQ(joined[2][1].sizes(), at::IntArrayRef({1, 3, 2, 6}));
}

TEST(Join, OfAStageFollowsTheSchedulesTable) {
  Units units{{"encode",
               {"prompt"},
               {"text", "mask"},
               {"encoder"},
               [](Scope& s) {
                 auto length = static_cast<int64_t>(s.text("prompt").size());
                 s.write("text", words(length, 2));
                 s.write("mask", at::ones({1, length}));
               }},
              {"loss", {"text", "mask", "references", "noise"}, {"loss"}, {"dit"}, [](Scope& s) {
                 auto sums = (s.tensor("text").sum(2) * s.tensor("mask")).sum(1) + s.tensor("noise");
                 for (int64_t i = 0; i < sums.numel(); ++i) sums[i] += std::ssize(s.lists("references").at(static_cast<size_t>(i)));
                 s.write("loss", sums);
               }}};
  Labels of_sample{.sample = true}, of_visit{.timestep = true};
  auto planned = schedule(units, {{"prompt", of_sample}, {"references", of_sample}, {"noise", of_visit}}, {"dit"}, {}, {"text", "mask"});
  EXPECT_THAT(planned.live.padded, testing::ElementsAre("mask", "text"));
  auto kept = [&](const std::string& prompt, size_t num_references) {
    Values values{{"prompt", prompt}};
    run(planned.once.units, values);
    values.erase("prompt");
    values["references"] = TensorLists{std::vector<at::Tensor>(num_references, at::zeros({1}))};
    return values;
  };
  auto loss = [&](std::vector<Values> samples) {
    auto count = std::ssize(samples);
    return tensor_of(run(planned.live, std::move(samples), {{"noise", at::zeros({count})}}).at("loss"));
  };
  auto batch = loss({kept("abc", 2), kept("a", 0)});
  EXPECT_TRUE(at::equal(batch, at::tensor({14.0f, 4.0f})));
  EXPECT_TRUE(at::equal(batch, at::cat({loss({kept("abc", 2)}), loss({kept("a", 0)})}))) << "a batch is its samples";
  auto again = with_policy(planned, {.ahead = false});
  EXPECT_EQ(again.live.padded, planned.live.padded);
}

TEST(Audit, SeesAListThatIsChangedInPlace) {
  Unit unit{"scale", {"references"}, {"sum"}, {}, [](Scope& s) {
              auto first = s.lists("references").at(0).at(1);
              s.write("sum", first.mul_(2).sum());
            }};
  Values values{{"references", TensorLists{{at::ones({2}), at::ones({3})}}}};
  EXPECT_THAT(audit(unit, values), testing::ElementsAre(testing::HasSubstr("changes 'references' in place")));
  EXPECT_TRUE(at::equal(std::get<TensorLists>(values.at("references"))[0][1], at::ones({3}))) << "the caller's values are left alone";
}

TEST(Values, OfListsAreMovedAndCountedLikeTensors) {
  Values values{{"references", TensorLists{{at::ones({2}), at::ones({3, 4})}, {}}}, {"prompt", "cat"}, {"number", at::ones({})}};
  EXPECT_EQ(num_bytes(values.at("references")), 14 * 4);
  EXPECT_EQ(num_bytes(values.at("prompt")), 3);
  auto there = moved(values, c10::Device(c10::kMeta));
  EXPECT_TRUE(std::get<TensorLists>(there.at("references"))[0][1].is_meta());
  EXPECT_FALSE(std::get<at::Tensor>(there.at("number")).is_meta()) << "units read it";
  EXPECT_FALSE(std::get<TensorLists>(values.at("references"))[0][1].is_meta());
}

TEST(Values, BeginWhereTheAllocatorLetsTensorsBegin) {
  auto file = at::arange(100, at::kFloat);
  Values values{{"x", file.narrow(0, 2, 60)}, {"y", file}};
  auto there = moved(values, c10::kCPU);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor_of(there.at("x")).const_data_ptr()) % 64, 0U);
  EXPECT_TRUE(at::equal(tensor_of(there.at("x")), file.narrow(0, 2, 60)));
  EXPECT_TRUE(tensor_of(there.at("y")).is_alias_of(file)) << "what lies well is not copied";
}

}  // namespace burnish::join_test
