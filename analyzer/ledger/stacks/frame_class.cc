// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/stacks/frame_class.h"

#include <algorithm>
#include <initializer_list>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace gpumem {
namespace {

// The part behind the last folder of installed packages, or "".
absl::string_view InsidePackages(absl::string_view file) {
  for (const absl::string_view folder : {absl::string_view("/site-packages/"), absl::string_view("/dist-packages/")}) {
    const size_t at = file.rfind(folder);
    if (at != absl::string_view::npos) return file.substr(at + folder.size());
  }
  return {};
}

absl::string_view BaseName(absl::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == absl::string_view::npos ? path : path.substr(slash + 1);
}

bool IsTorchPackage(absl::string_view inside) {
  for (const char* name : {"torch/", "torchgen/", "functorch/", "triton/"}) {
    if (absl::StartsWith(inside, name)) return true;
  }
  return false;
}

// A PyTorch that was built in its source tree lies in no package folder.
bool IsTorchSourceTree(absl::string_view file) {
  for (const char* part :
       {"/torch/nn/modules/", "/torch/nn/functional.py", "/torch/optim/", "/torch/autograd/", "/torch/_tensor.py",
        "/torch/utils/_", "/torch/_dynamo/", "/torch/_inductor/", "/torch/_ops.py", "/torch/distributed/"}) {
    if (absl::StrContains(file, part)) return true;
  }
  return false;
}

// Windows: .../Python310/Lib/os.py, .../miniconda3/lib/os.py, .../envs/NAME/lib/os.py, below a drive.
bool IsWindowsLibrary(absl::string_view file) {
  const std::string lower = absl::AsciiStrToLower(file);
  const size_t lib = lower.size() > 2 && lower[1] == ':' ? lower.find("/lib/") : std::string::npos;
  if (lib == std::string::npos) return false;
  const absl::string_view home = absl::string_view(lower).substr(0, lib);
  if (absl::EndsWith(home.substr(0, home.rfind('/')), "/envs")) return true;
  const absl::string_view name = BaseName(home);
  return absl::StartsWith(name, "python3") || absl::StartsWith(name, "anaconda") || absl::StartsWith(name, "mini");
}

// .../lib/python3.11/os.py, .../lib/python311.zip/os.py
bool IsStandardLibrary(absl::string_view file) {
  if (IsWindowsLibrary(file)) return true;
  size_t at = file.find("/python3");
  while (at != absl::string_view::npos) {
    const absl::string_view parent = file.substr(0, at);
    if (absl::EndsWith(parent, "/lib") || absl::EndsWith(parent, "/lib64")) return true;
    at = file.find("/python3", at + 1);
  }
  return false;
}

// What TorchInductor writes: .../torchinductor_me/ab/cab3....py, or a folder of the user's with the rest of it. A name
// is "c" and a SHA-256 in base 32, its folder the second and third letter of it (torch/_inductor/codecache.py,
// get_path).
bool IsCompiledFile(absl::string_view file) {
  constexpr size_t kNameLetters = 52;
  absl::string_view name = BaseName(file);
  const absl::string_view folder = BaseName(file.substr(0, file.size() - std::min(file.size(), name.size() + 1)));
  if (!absl::ConsumeSuffix(&name, ".py")) return false;
  const bool is_hash =
      name.size() == kNameLetters && name.front() == 'c' && std::all_of(name.begin(), name.end(), [](char c) {
        return absl::ascii_islower(static_cast<unsigned char>(c)) || (c >= '2' && c <= '7');
      });
  return is_hash && folder == name.substr(1, 2);
}

FrameClass ClassifyPython(absl::string_view file) {
  if (absl::StartsWith(file, "<frozen importlib") || absl::StartsWith(file, "<frozen zipimport"))
    return FrameClass::kImportMachinery;
  if (absl::StartsWith(file, "<frozen ")) return FrameClass::kStandardLibrary;
  if (absl::StartsWith(file, "<eval_with_key>") || absl::StrContains(file, "/torchinductor_") || IsCompiledFile(file))
    return FrameClass::kTorch;
  const absl::string_view inside = InsidePackages(file);
  if (!inside.empty()) return IsTorchPackage(inside) ? FrameClass::kTorch : FrameClass::kLibrary;
  if (IsTorchSourceTree(file)) return FrameClass::kTorch;
  return IsStandardLibrary(file) ? FrameClass::kStandardLibrary : FrameClass::kUser;
}

bool IsSystemModule(absl::string_view module) {
  for (const char* folder : {"/usr/lib", "/lib/", "/lib64/", "/usr/local/cuda", "/opt/conda/lib/"}) {
    if (absl::StartsWith(module, folder)) return true;
  }
  // The interpreter's own modules (.../lib/python3.11/lib-dynload/_ctypes.so) and what a conda environment has in lib/.
  if (!InsidePackages(module).empty() || absl::StrContains(module, "/lib-dynload/")) return true;
  if (absl::StrContains(module, "conda") && absl::StrContains(module, "/lib/lib")) return true;
  const absl::string_view name = BaseName(module);
  for (const char* prefix :
       {"libtorch",    "libc10",      "libcuda",   "libcublas", "libcudnn", "libcufft",   "libcurand",
        "libcusolver", "libcusparse", "libnccl",   "libnvidia", "libnvrtc", "libnvshmem", "libgpumemshim",
        "libsimcuda",  "libpython",   "libstdc++", "libgcc_s",  "libc.so",  "libpthread", "ld-linux",
        "python",      "linux-vdso",  "[vdso]",    "libffi"}) {
    if (absl::StartsWith(name, prefix)) return true;
  }
  return false;
}

bool StartsWithAny(absl::string_view text, std::initializer_list<const char*> prefixes) {
  for (const char* prefix : prefixes) {
    if (absl::StartsWith(text, prefix)) return true;
  }
  return false;
}

absl::string_view NameOf(const ResolvedFrame& frame) {
  return frame.short_function.empty() ? frame.function : frame.short_function;
}

bool IsTellingInTorch(absl::string_view name) {
  if (absl::StartsWith(name, "at::_ops::")) return absl::EndsWith(name, "::call");
  if (!AutogradNode(name).empty() || name == "torch::autograd::Engine::thread_main") return true;
  return StartsWithAny(name, {"at::native::", "at::cuda::", "c10::cuda::", "c10d::", "torch::jit::",
                              "torch::inductor::", "torch::aot_inductor::", "torch::cuda::"});
}

// A CUDA runtime that is linked into the program: its inner functions have names of this kind, and its calls their own.
bool IsStaticRuntime(absl::string_view name) {
  return StartsWithAny(name, {"libcudart_static_", "cudaMalloc", "cudaHostAlloc", "cudaGraph", "cudaMemPool"});
}

// Planned programs may be forked from it (planner/launch/fork_server.py): it calls the script as the interpreter would.
bool IsForkServer(const ResolvedFrame& frame) {
  absl::string_view file = frame.file;
  if (!frame.python || !absl::ConsumeSuffix(&file, "/fork_server.py")) return false;
  return absl::StartsWith(BaseName(file), "server");
}

absl::string_view LastPart(absl::string_view name) {
  const size_t colons = name.rfind("::");
  return colons == absl::string_view::npos ? name : name.substr(colons + 2);
}

}  // namespace

FrameClass ClassifyFrame(const ResolvedFrame& frame) {
  if (IsForkServer(frame)) return FrameClass::kStandardLibrary;
  if (frame.python) return ClassifyPython(frame.file);
  const bool is_system = frame.module.empty() || IsSystemModule(frame.module) || IsStaticRuntime(NameOf(frame));
  return is_system ? FrameClass::kNative : FrameClass::kUser;
}

std::string ShortFile(absl::string_view file, absl::string_view working_directory) {
  if (file.empty() || file[0] == '<') return std::string(file);
  // The same code has the same name in every run, in whichever folder.
  if (IsCompiledFile(file)) return absl::StrCat("compiled code ", BaseName(file).substr(0, 8));
  const absl::string_view inside = InsidePackages(file);
  if (!inside.empty()) return std::string(inside);
  absl::string_view rest = file;
  if (working_directory.size() > 1 && absl::ConsumePrefix(&rest, working_directory) &&
      absl::ConsumePrefix(&rest, "/")) {
    return std::string(rest);
  }
  const size_t last = file.rfind('/');
  if (last == absl::string_view::npos || last == 0) return std::string(absl::StripPrefix(file, "/"));
  const size_t before = file.rfind('/', last - 1);
  return std::string(before == absl::string_view::npos ? file : file.substr(before + 1));
}

std::string FrameText(const ResolvedFrame& frame, absl::string_view working_directory) {
  const std::string& function = frame.short_function.empty() ? frame.function : frame.short_function;
  if (!frame.file.empty()) {
    const std::string line = frame.line == 0 ? "" : absl::StrCat(":", frame.line);
    return absl::StrCat(ShortFile(frame.file, working_directory), line, function.empty() ? "" : " ", function);
  }
  if (function.empty()) return frame.module.empty() ? "?" : std::string(BaseName(frame.module));
  // "libfoo.so+0x1234" names its module itself.
  if (frame.module.empty() || absl::StartsWith(function, BaseName(frame.module))) return function;
  return absl::StrCat(function, " (", BaseName(frame.module), ")");
}

bool IsInsideAllocator(const ResolvedFrame& frame) {
  return !frame.python && absl::StartsWith(NameOf(frame), "c10::cuda::CUDACachingAllocator::");
}

bool IsMark(const ResolvedFrame& frame) {
  return !frame.python && frame.module.empty() && absl::StartsWith(NameOf(frame), "<");
}

bool IsTelling(const ResolvedFrame& frame) {
  const absl::string_view name = NameOf(frame);
  if (IsForkServer(frame)) return false;
  if (frame.python || IsMark(frame)) return true;
  if (name.empty() || absl::StartsWith(name, "0x") || absl::StrContains(name, "+0x")) return false;
  const absl::string_view module = BaseName(frame.module);
  if (StartsWithAny(module, {"libtorch", "libc10"})) return IsTellingInTorch(name);
  if (absl::StrContains(frame.module, "/lib-dynload/")) return false;
  return !StartsWithAny(module, {"python", "libffi", "libpython", "libc.so", "libstdc++", "libgcc_s", "ld-linux",
                                 "libpthread", "libgpumemshim", "linux-vdso", "[vdso]", "libm.so", "libdl.so"});
}

bool IsTrampoline(const ResolvedFrame& frame) {
  const absl::string_view name = LastPart(frame.function);
  for (const char* trampoline :
       {"_call_impl", "_wrapped_call_impl", "__call__", "wrapper", "_fn", "inner", "decorate_context", "_use_grad",
        "_dispatch", "decorate_autocast", "wrapped_func", "wrapped_fn", "profile_hook_step", "_engine_run_backward"}) {
    if (name == trampoline || absl::EndsWith(name, absl::StrCat(".", trampoline))) return true;
  }
  return false;
}

absl::string_view WorkspaceOf(const ResolvedFrame& frame) {
  struct Sign {
    absl::string_view function, module;  // a part of the one, the beginning of the other
    absl::string_view workspace;
  };
  static constexpr Sign kSigns[] = {
      {"CUDABlasWorkspace", "libcublas", "cuBLAS workspace"},
      {"CUDABlasLtWorkspace", "libcublas", "cuBLAS workspace"},
      {"setWorkspaceForHandle", "libcublas", "cuBLAS workspace"},
      {"CublasWorkspace", "libcublas", "cuBLAS workspace"},
      {"run_conv_plan", "libcudnn", "cuDNN workspace"},
      {"generate_and_filter_plans", "libcudnn", "cuDNN workspace"},
      {"raw_cudnn_", "libcudnn", "cuDNN workspace"},
      {"chooseAlgorithm", "libcudnn", "cuDNN workspace"},
      {"_cudnn_init_dropout_state", "libcudnn", "cuDNN workspace"},
      {"", "libcusolver", "cuSOLVER workspace"},
      {"", "libcusparse", "cuSPARSE workspace"},
      {"", "libcufft", "cuFFT workspace"},
  };
  if (frame.python || ClassifyFrame(frame) != FrameClass::kNative) return "";
  const absl::string_view name = NameOf(frame), module = BaseName(frame.module);
  for (const Sign& sign : kSigns) {
    const bool is_named = !sign.function.empty() && absl::StrContains(name, sign.function);
    if (is_named || absl::StartsWith(module, sign.module)) return sign.workspace;
  }
  return "";
}

std::string AutogradNode(absl::string_view native_function) {
  const size_t apply = native_function.find("::apply");
  if (apply == absl::string_view::npos) return "";
  const absl::string_view node = LastPart(native_function.substr(0, apply));
  const bool generated =
      absl::StrContains(node, "Backward") && absl::ascii_isdigit(static_cast<unsigned char>(node.back()));
  return generated || node == "AccumulateGrad" ? std::string(node) : "";
}

std::string AtenOperator(absl::string_view native_function) {
  absl::string_view rest = native_function;
  if (!absl::ConsumePrefix(&rest, "at::_ops::")) return "";
  const size_t end = rest.find("::");
  return end == absl::string_view::npos ? "" : absl::StrCat("aten::", rest.substr(0, end));
}

}  // namespace gpumem
