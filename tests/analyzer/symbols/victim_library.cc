// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "victim_library.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "symbols/elf_identity.h"

namespace gpumem::testing {

void RunCommand(const std::string& command) {
  if (std::system(command.c_str()) != 0) ADD_FAILURE() << "failed: " << command;
}

VictimLibrary::VictimLibrary() : original_(GPUMEM_TEST_VICTIM) {
  char pattern[] = "/tmp/gpumemshim_symbols_test.XXXXXX";
  folder_ = mkdtemp(pattern);
  void* const handle = dlopen(original_.c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto run = handle == nullptr ? nullptr : reinterpret_cast<decltype(&RunVictim)>(dlsym(handle, "RunVictim"));
  if (run == nullptr) {
    ADD_FAILURE() << "no victim library: " << dlerror();
    return;
  }
  int count = 0;
  const VictimFrame* const frames = run(&count);
  frames_.assign(frames, frames + count);
  struct link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0) load_bias_ = map->l_addr;
  if (const auto identity = ReadElfIdentity(original_)) build_id_ = identity->build_id;
}

VictimLibrary::~VictimLibrary() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::vector<uint64_t> VictimLibrary::Addresses() const {
  std::vector<uint64_t> addresses;
  for (const VictimFrame& frame : frames_) addresses.push_back(frame.pc - load_bias_);
  std::sort(addresses.begin(), addresses.end());
  return addresses;
}

const VictimFrame& VictimLibrary::FrameAt(uint64_t address) const {
  return *std::find_if(frames_.begin(), frames_.end(),
                       [&](const VictimFrame& frame) { return frame.pc - load_bias_ == address; });
}

std::string VictimLibrary::Shape(const std::string& options, const std::string& name) const {
  const std::string path = Path(name);
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  // Inside the folder, so that a debug link names a file without its path.
  RunCommand("cd '" + folder_ + "' && objcopy " + options + " '" + original_ + "' '" + path + "'");
  return path;
}

ModuleInfo VictimLibrary::Module(const std::string& path) const {
  ModuleInfo module;
  module.path = path;
  module.build_id = build_id_;
  module.load_bias = load_bias_;
  module.start = frames_.front().pc & ~uint64_t{0xffff};
  module.end = module.start + 0x20000;
  module.id = 1;
  return module;
}

}  // namespace gpumem::testing
