#pragma once
#include <ATen/ATen.h>

#include <string>

#include "data/image.h"
#include "tests/studio/served.h"

namespace burnish::test {

/// A studio with an empty dataset, cats.
class DatasetTest : public StudioTest {
 protected:
  DatasetTest() { EXPECT_EQ(ask("/api/datasets", json{{"name", "cats"}})["name"], "cats"); }

  fs::path folder() const { return root() / "datasets/cats"; }
  /// The bytes of a PNG file.
  static std::string png(const at::Tensor& pixels_HWC) {
    Scratch scratch;
    data::write_png(scratch / "one.png", pixels_HWC);
    return text_of(scratch / "one.png");
  }
  static std::string picture(int64_t height, int64_t width) { return png(at::full({height, width, 3}, 128, at::kByte)); }
  /// Sends bytes to a place behind /api/datasets/cats/; the status of the answer.
  int send(const std::string& where, const std::string& bytes) const {
    auto answer = client().Put("/api/datasets/cats/" + where, {{"Authorization", "Bearer " + token}}, bytes, "application/octet-stream");
    return answer ? answer->status : 0;
  }
  int put(const std::string& file, const std::string& bytes) const { return send("files/" + file, bytes); }
  int remove(const std::string& where) const {
    auto answer = client().Delete("/api/datasets/cats" + where, {{"Authorization", "Bearer " + token}});
    return answer ? answer->status : 0;
  }
  json items() const { return ask("/api/datasets/cats/items"); }
};

}  // namespace burnish::test
