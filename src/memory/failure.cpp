#include "memory/failure.h"

#include <c10/util/Exception.h>
#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <new>
#include <string_view>
#include <system_error>

namespace burnish::memory {

namespace {

const char* g_sentence = nullptr;
int g_exit_code = 0;
std::terminate_handler g_otherwise = nullptr;

[[noreturn]] void end_with_sentence() {
  auto written = write(STDERR_FILENO, g_sentence, std::strlen(g_sentence)) + write(STDERR_FILENO, "\n", 1);
  _exit(written < 0 ? 1 : g_exit_code);
}

bool could_not_have_it(const std::exception& error) {
  const auto* of_system = dynamic_cast<const std::system_error*>(&error);
  return is_out_of_memory(error) || (of_system != nullptr && of_system->code() == std::errc::resource_unavailable_try_again);
}

void explain_exception() {
  try {
    if (auto uncaught = std::current_exception()) std::rethrow_exception(uncaught);
  } catch (const std::exception& error) {
    if (could_not_have_it(error)) end_with_sentence();
  } catch (...) {  // of no kind that is known
  }
  g_otherwise();
}

/// On return the fault happens once more, with what the system does of itself.
void explain_fault(int /*signal*/) {
  constexpr size_t kLeftAtLimit = 16 << 20;  // more than what a library asks for without looking whether it got it
  void* left = mmap(nullptr, kLeftAtLimit, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (left != MAP_FAILED) return;
  end_with_sentence();
}

}  // namespace

void explain_uncaught(const char* sentence, int exit_code) {
  g_sentence = sentence;
  g_exit_code = exit_code;
  g_otherwise = std::set_terminate(explain_exception);
}

void explain_faults_at_limit(const char* sentence, int exit_code) {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  void* frame = nullptr;
  backtrace(&frame, 1);  // glibc loads what unwinds stacks when it first has to, and aborts where there is no room for that
  g_sentence = sentence;
  g_exit_code = exit_code;
  struct sigaction action {};
  action.sa_handler = explain_fault;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGSEGV, &action, nullptr);
}

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  // oneDNN has none either: what is asked of it here it can do, unless it finds no room for its code or its scratch.
  for (const char* words : {"could not create a primitive", "could not execute a primitive"}) {
    if (std::string_view(error.what()).find(words) != std::string_view::npos) return true;
  }
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  if (torch_error == nullptr) return false;
  if (dynamic_cast<const c10::OutOfMemoryError*>(torch_error) != nullptr) return true;
  // libtorch has no type for an allocation on the host that fails, only words.
  return std::string_view(torch_error->what_without_backtrace()).find("can't allocate memory") != std::string_view::npos;
}

}  // namespace burnish::memory
