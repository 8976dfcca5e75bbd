// Validation losses of a run's log, and the saves that lie beside it.
#include "records/validation_losses.h"

#include <gmock/gmock.h>

#include "records/saved_weights.h"
#include "tests/scratch.h"

namespace burnish::records {

TEST(ValidationLosses, AreThoseOfTheLogAndLieOnLinesBetweenLooks) {
  test::Scratch run;
  run.write("log.jsonl",
            "{\"step\": 0, \"validation_loss\": 1.0}\n{\"step\": 1, \"loss\": 2, \"validation_loss\": null}\n"
            "{\"step\": 2, \"validation_loss\": 0.5}\n{\"step\": 4, \"validation_loss\": 0.9}\n{\"step\": 4, \"validation_loss\": 0.7}\n");
  const auto losses = read_validation_losses(run / "");
  ASSERT_EQ(losses.size(), 3);
  EXPECT_EQ(losses[2].step, 4);
  EXPECT_EQ(losses[2].loss, 0.7) << "a step that was taken twice";
  EXPECT_EQ(loss_at(losses, 2), 0.5);
  EXPECT_DOUBLE_EQ(*loss_at(losses, 3), 0.6);
  EXPECT_FALSE(loss_at(losses, 5));
  EXPECT_FALSE(loss_at({}, 1));
  EXPECT_TRUE(read_validation_losses(run / "nowhere").empty());
}

TEST(SavedWeights, OfARunAreFoundByStepWithAllTheirParts) {
  test::Scratch run;
  for (const char* name : {"step-20.safetensors", "step-3.text_encoder.safetensors", "step-3.safetensors", "best.safetensors",
                           "other-step-7.safetensors", "notes.txt"})
    run.write(name, "");
  const auto saves = find_saves(run / "", "");
  ASSERT_EQ(saves.size(), 2);
  EXPECT_EQ(saves[0].step, 3);
  EXPECT_EQ(saves[0].files.size(), 2);
  EXPECT_EQ(saves[1].step, 20);
  EXPECT_EQ(find_saves(run / "", "other").at(0).step, 7);
  EXPECT_EQ(newest_weights(run / "", "").at(0).path.filename(), "best.safetensors");
  EXPECT_THAT(test::error_of([&] { find_saves(run / "", "none"); }), testing::HasSubstr("holds no weights that a run saved"));
  test::Scratch best;
  best.write("best.safetensors", "");
  EXPECT_THAT(test::error_of([&] { find_saves(best / "", ""); }), testing::HasSubstr("none that it saved by step"));
}

}  // namespace burnish::records
