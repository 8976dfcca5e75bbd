#include "records/asked.h"

#include <system_error>
#include <vector>

#include "base/input_error.h"
#include "base/text.h"
#include "io/files.h"

namespace burnish::records {

namespace fs = std::filesystem;

static fs::path path_of(const fs::path& run, const std::string& word) { return run / "ask" / word; }

void ask(const fs::path& run, const std::string& word) {
  std::vector<std::string> words;
  for (const auto& [known, what] : kAskedWords) words.emplace_back(known);
  if (!contains(words, word)) config_error("records", "'{}' cannot be asked of a run; there are {}", word, join(words));
  const auto path = path_of(run, word);
  std::error_code ignored;  // writing the file says what is wrong
  fs::create_directories(path.parent_path(), ignored);
  io::write_text_atomic(path, "");
}

Asked read_asked(const fs::path& run) {
  Asked asked;
  if (!io::is_folder(run / "ask")) return asked;  // one look a step where nothing was ever asked
  for (const auto& [word, what] : kAskedWords) asked.*what = io::is_there(path_of(run, word));
  return asked;
}

void take_back(const fs::path& run, const Asked& done) {
  std::error_code ignored;  // what cannot be taken away is asked again
  for (const auto& [word, what] : kAskedWords) {
    if (done.*what) fs::remove(path_of(run, word), ignored);
  }
}

}  // namespace burnish::records
