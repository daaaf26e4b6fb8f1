// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/profiler_frames.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace gpumem {
namespace {

constexpr absl::string_view kModulePrefix = "nn.Module: ";
constexpr absl::string_view kEngine = "autograd::engine::evaluate_function";
constexpr size_t kMostModules = 1 << 16, kLongestModulePath = 400;
constexpr absl::string_view kModuleFile = ".../site-packages/torch/nn/modules/module.py";

// Packages that programs on GPUs stand on: what they are called in site-packages.
constexpr absl::string_view kPackages[] = {"accelerate",
                                           "aiter",
                                           "apex",
                                           "auto_gptq",
                                           "autoawq",
                                           "bitsandbytes",
                                           "cloudpickle",
                                           "colossalai",
                                           "compressed_tensors",
                                           "cuda",
                                           "cupy",
                                           "dask",
                                           "datasets",
                                           "deepspeed",
                                           "detectron2",
                                           "dgl",
                                           "diffusers",
                                           "einops",
                                           "fairscale",
                                           "fairseq",
                                           "fastapi",
                                           "fire",
                                           "flash_attn",
                                           "flashinfer",
                                           "fsspec",
                                           "functorch",
                                           "gradio",
                                           "huggingface_hub",
                                           "hydra",
                                           "ignite",
                                           "ipykernel",
                                           "IPython",
                                           "joblib",
                                           "jax",
                                           "jaxlib",
                                           "keras",
                                           "kornia",
                                           "lightning",
                                           "lightning_fabric",
                                           "liger_kernel",
                                           "lm_eval",
                                           "mamba_ssm",
                                           "megatron",
                                           "mmcv",
                                           "mmengine",
                                           "monai",
                                           "nemo",
                                           "networkx",
                                           "numba",
                                           "numpy",
                                           "omegaconf",
                                           "onnx",
                                           "onnxruntime",
                                           "open_clip",
                                           "optimum",
                                           "pandas",
                                           "peft",
                                           "PIL",
                                           "pydantic",
                                           "pytest",
                                           "_pytest",
                                           "pluggy",
                                           "pytorch_lightning",
                                           "ray",
                                           "safetensors",
                                           "scipy",
                                           "sentence_transformers",
                                           "sglang",
                                           "sgl_kernel",
                                           "skimage",
                                           "sklearn",
                                           "starlette",
                                           "tensordict",
                                           "tensorflow",
                                           "timm",
                                           "tokenizers",
                                           "torch",
                                           "torch_geometric",
                                           "torch_npu",
                                           "torch_xla",
                                           "torchao",
                                           "torchaudio",
                                           "torchdata",
                                           "torchgen",
                                           "torchmetrics",
                                           "torchrec",
                                           "torchtext",
                                           "torchtune",
                                           "torchvision",
                                           "tornado",
                                           "tqdm",
                                           "traitlets",
                                           "transformer_engine",
                                           "transformers",
                                           "triton",
                                           "trl",
                                           "ultralytics",
                                           "unsloth",
                                           "unsloth_zoo",
                                           "uvicorn",
                                           "uvloop",
                                           "vllm",
                                           "wandb",
                                           "xformers",
                                           "zmq"};

// Of the standard library what stands in stacks, without names that programs like to give to files of their own.
constexpr absl::string_view kStandardFiles[] = {"_collections_abc.py",
                                                "_weakrefset.py",
                                                "abc.py",
                                                "argparse.py",
                                                "bdb.py",
                                                "cProfile.py",
                                                "codeop.py",
                                                "contextlib.py",
                                                "contextvars.py",
                                                "copy.py",
                                                "copyreg.py",
                                                "dataclasses.py",
                                                "enum.py",
                                                "functools.py",
                                                "genericpath.py",
                                                "gzip.py",
                                                "inspect.py",
                                                "linecache.py",
                                                "pathlib.py",
                                                "pickle.py",
                                                "pkgutil.py",
                                                "posixpath.py",
                                                "random.py",
                                                "runpy.py",
                                                "selectors.py",
                                                "shutil.py",
                                                "socket.py",
                                                "socketserver.py",
                                                "subprocess.py",
                                                "tempfile.py",
                                                "threading.py",
                                                "traceback.py",
                                                "typing.py",
                                                "warnings.py",
                                                "weakref.py",
                                                "zipfile.py"};
constexpr absl::string_view kStandardFolders[] = {"asyncio",  "collections",     "concurrent", "ctypes",  "email",
                                                  "http",     "importlib",       "json",       "logging", "re",
                                                  "unittest", "multiprocessing", "urllib",     "xml"};

template <size_t kSize>
bool Holds(const absl::string_view (&list)[kSize], absl::string_view text) {
  return std::find(std::begin(list), std::end(list), text) != std::end(list);
}

// "train.py(12): step".
struct FunctionName {
  absl::string_view file, function;
  uint32_t line = 0;
};

bool ParseFunction(absl::string_view name, FunctionName* parsed) {
  const size_t end = name.find("): ");
  if (end == absl::string_view::npos) return false;
  const size_t open = name.rfind('(', end);
  if (open == absl::string_view::npos || open == 0) return false;
  parsed->file = name.substr(0, open);
  parsed->function = name.substr(end + 3);
  return absl::SimpleAtoi(name.substr(open + 1, end - open - 1), &parsed->line) && !parsed->function.empty();
}

// "AddmmBackward0", "CudnnConvolutionBackward".
bool IsNode(absl::string_view name) {
  while (!name.empty() && absl::ascii_isdigit(static_cast<unsigned char>(name.back()))) name.remove_suffix(1);
  return absl::EndsWith(name, "Backward") && !absl::StrContains(name, ':') && !absl::StrContains(name, ' ');
}

}  // namespace

std::string UncutPath(absl::string_view path) {
  const bool is_cut = !path.empty() && path[0] != '/' && path[0] != '<' && !absl::StrContains(path, ":\\");
  if (!is_cut) return std::string(path);
  const size_t slash = path.find_first_of("/\\");
  const absl::string_view first = path.substr(0, slash);
  if (slash == absl::string_view::npos)
    return absl::StrCat(Holds(kStandardFiles, path) ? ".../lib/python3/" : "", path);
  if (Holds(kPackages, first)) return absl::StrCat(".../site-packages/", path);
  return absl::StrCat(Holds(kStandardFolders, first) ? ".../lib/python3/" : "", path);
}

bool IsModuleCall(absl::string_view name) { return absl::StartsWith(name, kModulePrefix); }

bool IsFunction(absl::string_view name) {
  FunctionName parsed;
  return ParseFunction(name, &parsed);
}

bool IsEngine(absl::string_view name) { return absl::StartsWith(name, kEngine); }

bool NextModule(absl::string_view* rest, absl::string_view* instance, absl::string_view* type) {
  const size_t open = rest->find('('), close = rest->find(")::");
  if (open == absl::string_view::npos || close == absl::string_view::npos || close < open) return false;
  *instance = rest->substr(0, open);
  *type = rest->substr(open + 1, close - open - 1);
  const size_t end = rest->find('.', close);
  *rest = end == absl::string_view::npos ? absl::string_view() : rest->substr(end + 1);
  return true;
}

uint32_t ProfilerFrames::PythonFunction(absl::string_view name) {
  FunctionName parsed;
  if (!ParseFunction(name, &parsed)) return 0;
  return definitions_.PythonFrame(UncutPath(parsed.file), parsed.function, parsed.line);
}

// A module is named by the calls around its first one: "Sequential_0.Linear_1" inside the outermost.
uint32_t ProfilerFrames::ModuleCall(absl::string_view name, uint32_t around, uint32_t* module) {
  absl::string_view instance = name;
  absl::ConsumePrefix(&instance, kModulePrefix);
  return ModuleOf(instance, instance.substr(0, instance.rfind('_')), instance, around, module);
}

uint32_t ProfilerFrames::ScriptModule(absl::string_view instance, absl::string_view type, uint32_t around,
                                      uint32_t* module) {
  if (instance == "SELF") return 0;
  const std::string key = absl::StrCat(around, " ", instance, "(", type, ")");
  return ModuleOf(key, type, around == 0 ? type : instance, around, module);
}

// `key`: what two calls of one module share.
uint32_t ProfilerFrames::ModuleOf(absl::string_view key, absl::string_view type, absl::string_view name,
                                  uint32_t around, uint32_t* module) {
  if (modules_.size() >= kMostModules && !modules_.contains(key)) return 0;
  Module& made = modules_[std::string(key)];
  if (made.id == 0) {
    made.id = static_cast<uint32_t>(modules_.size());
    made.root = around == 0 ? made.id : roots_[around];
    if (around != 0) {
      const std::string& outer = names_[around];
      const bool is_short = !outer.empty() && outer.size() < kLongestModulePath;
      made.name = absl::StrCat(is_short ? outer : "", is_short ? "." : "", name.substr(0, kLongestModulePath));
    }
    names_[made.id] = made.name;
    roots_[made.id] = made.root;
    trace::NnModule* const written = definitions_.pending()->add_nn_modules();
    written->set_id(made.id);
    written->set_class_name(ValidText(type));
    written->set_root(made.root);
    written->set_name(ValidText(made.name));
  }
  *module = made.id;
  return definitions_.PythonFrame(kModuleFile, "Module.__call__", 0, made.id);
}

uint32_t ProfilerFrames::Operator(absl::string_view name) {
  absl::string_view rest = name;
  if (absl::ConsumePrefix(&rest, "aten::"))
    return definitions_.NativeFrame("", absl::StrCat("at::_ops::", rest, "::call"), 0);
  if (IsEngine(name)) return definitions_.NativeFrame("", "torch::autograd::Engine::evaluate_function", 0);
  if (IsNode(name)) {
    const bool is_generated = absl::ascii_isdigit(static_cast<unsigned char>(name.back()));
    return definitions_.NativeFrame(
        "", absl::StrCat("torch::autograd::", is_generated ? "generated::" : "", name, "::apply"), 0);
  }
  if (absl::StartsWith(name, "torch::autograd::"))
    return definitions_.NativeFrame("", absl::StrCat(name, "::apply"), 0);
  return definitions_.NativeFrame("", name, 0);
}

// "Optimizer.step#Adam.step", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__": PyTorch's own.
uint32_t ProfilerFrames::Annotation(absl::string_view name) {
  const size_t hash = name.find('#');
  const absl::string_view function = hash == absl::string_view::npos ? name : name.substr(hash + 1);
  const bool is_optimizer = absl::StartsWith(name, "Optimizer.");
  return definitions_.PythonFrame(
      is_optimizer ? ".../site-packages/torch/optim/optimizer.py" : ".../site-packages/torch/utils/data/dataloader.py",
      function, 0);
}

}  // namespace gpumem
