#include "app/failure.h"

#include <c10/util/Exception.h>
#include <fmt/core.h>

#include <cstdio>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "config/problems.h"
#include "config/refusal.h"
#include "memory/failure.h"

namespace burnish::app {

namespace {

Failure by_app(const std::string& text, Exit code) {
  constexpr std::string_view kRoom = "[app] ";
  return {text, text.substr(kRoom.size()), code};
}

Failure bug(const std::exception& error) {
  return by_app(fmt::format("[app] internal error, please report it: {}", error.what()), Exit::internal);
}

Failure of_system(const std::system_error& error) {
  if (std::ferror(stdout) != 0) return by_app(fmt::format("[app] the output cannot be written: {}", error.code().message()), Exit::data);
  if (error.code() == std::errc::resource_unavailable_try_again)
    return by_app("[app] no further thread can be started: memory or the number of processes is limited (ulimit -v, ulimit -u)",
                  Exit::no_fit);
  return bug(error);
}

/// A file or folder that is not there, may not be looked at, or cannot be made.
Failure of_files(const std::filesystem::filesystem_error& error) {
  const auto path = error.path1().empty() ? std::string("a file") : error.path1().string();
  return by_app(one_line(fmt::format("[app] {} cannot be used: {}", path, error.code().message())), Exit::data);
}

}  // namespace

Failure failure_of(const std::exception& error) {
  if (const auto* several = dynamic_cast<const config::Refusal*>(&error)) return {several->lines(), without_source(error), several->code()};
  if (const auto* known = dynamic_cast<const Error*>(&error)) return {known->what(), without_source(error), known->code()};
  if (const auto* of = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) return of_files(*of);
  if (const auto* of = dynamic_cast<const std::system_error*>(&error)) return of_system(*of);
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr)
    return by_app("[app] out of device memory; use a smaller batch_size or use_gradient_checkpointing", Exit::no_fit);
  if (memory::is_out_of_memory(error)) return by_app(kNoMemory, Exit::no_fit);
  return bug(error);
}

}  // namespace burnish::app
