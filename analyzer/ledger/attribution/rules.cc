// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/rules.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace gpumem {
namespace {

constexpr absl::string_view kBuiltIn =
    R"(# Components of a model: what a module's class, or its name inside the model, says. The first rule that matches counts.
component lora       class ^Lora|LoRA|lora\.
component lora       name  (^|\.)lora_
component norm       class [Nn]orm
component norm       name  (^|\.)(ln|norm|layernorm|rmsnorm|bn)(_?[0-9a-z]+)?$
component embedding  class Embed
component embedding  name  (^|\.)(wte|wpe|embed_tokens|embeddings?)(\.|$)
component attention  class Attention|Attn
component attention  name  (^|\.)(self_attn|cross_attn|attn|attention)(\.|$)
component mlp        class MLP|Mlp|FeedForward|FFN|MoE|Expert
component mlp        class Intermediate$|[a-z]Output$
component mlp        name  (^|\.)(mlp|ffn|ff|feed_forward|experts?)(\.|$)
component conv       class ^(Lazy)?Conv(Transpose)?[0-9]d$|^CausalConv
component head       name  ^([a-z_]+\.)?([a-z_]+\.)?(lm_head|head|output|score|classifier|embed_out)(\.|$)
component dropout    class Dropout
component linear     class ^(Lazy)?(Bi)?[Ll]inear
component loss       class Loss$
component rotary     class Rotary|RoPE|Rope
component pooling    class Pool
component nonlinearity class ^(ELU|GELU|GLU|Hard.*|LeakyReLU|LogSoftmax|Mish|P?ReLU6?|SELU|SiLU|Sigmoid|Softmax|Softplus|Swish|Tanh)$
component nonlinearity class Activation$|GELU|SiLU
component block      class (Layer|Block|Bottleneck|Stage)$

# What memory is for, by the functions and files in its stack.
category workspace      function CUDABlas(Lt)?Workspace|setWorkspaceForHandle|chooseAlgorithm|CublasWorkspace
category workspace      function run_conv_plan|generate_and_filter_plans|raw_cudnn_|cudnn.*[Ww]orkspace
category workspace      function _cudnn_init_dropout_state
category workspace      file     /libcu(blas|blasLt|dnn[a-z_]*|solver|sparse|fft)\.so
category communication  file     /libnccl\.so
category communication  function ^(c10d::|ncclComm|nccl[A-Z])
category communication  file     /torch/distributed/(distributed_c10d|_functional_collectives)\.py$|_fsdp_collectives\.py$
category kv_cache       file     /transformers/cache_utils\.py$|/vllm/.*cache
category kv_cache       function KVCache|KvCache|kv_cache|DynamicCache\.|StaticCache\.
category graph_pool     file     /torch/_inductor/cudagraph_trees\.py$|/torch/cuda/graphs\.py$
)";

absl::string_view TakeWord(absl::string_view* line) {
  *line = absl::StripLeadingAsciiWhitespace(*line);
  const size_t end = std::min(line->find_first_of(" \t"), line->size());
  const absl::string_view word = line->substr(0, end);
  line->remove_prefix(end);
  return word;
}

template <typename Rule>
void Prepend(std::vector<Rule> first, std::vector<Rule>* all) {
  first.insert(first.end(), std::make_move_iterator(all->begin()), std::make_move_iterator(all->end()));
  *all = std::move(first);
}

}  // namespace

absl::string_view Rules::BuiltIn() { return kBuiltIn; }

Rules::Rules() {
  const absl::Status parsed = AddBefore(kBuiltIn);
  if (!parsed.ok()) std::abort();  // a bug of ours: tests parse them
}

absl::Status Rules::ParseLine(absl::string_view line, Lists* lists) {
  const absl::string_view sort = TakeWord(&line), name = TakeWord(&line), subject = TakeWord(&line);
  const std::string regex(absl::StripAsciiWhitespace(line));
  const bool is_component = sort == "component";
  if (!is_component && sort != "category")
    return absl::InvalidArgumentError("a rule begins with `component` or `category`");
  Rule rule;
  rule.by_place = subject == "name" || subject == "file";
  if (subject != (is_component ? rule.by_place ? "name" : "class" : rule.by_place ? "file" : "function"))
    return absl::InvalidArgumentError(is_component ? "behind the component's name stands `class` or `name`"
                                                   : "behind the category's name stands `function` or `file`");
  if (regex.empty()) return absl::InvalidArgumentError("the regular expression is missing");
  if (is_component) {
    rule.component = std::string(name);
  } else if (const std::optional<Category> category = CategoryNamed(name)) {
    rule.category = *category;
  } else {
    return absl::InvalidArgumentError(absl::StrCat(name, " is not a category"));
  }
  absl::StatusOr<Pattern> pattern = Pattern::Compile(regex);
  if (!pattern.ok()) return pattern.status();
  rule.pattern = *std::move(pattern);
  (is_component ? lists->components : lists->categories).push_back(std::move(rule));
  return absl::OkStatus();
}

absl::Status Rules::AddBefore(absl::string_view text) {
  Lists added;
  size_t number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const absl::string_view content = absl::StripAsciiWhitespace(line);
    if (content.empty() || content[0] == '#') continue;
    if (const absl::Status parsed = ParseLine(content, &added); !parsed.ok())
      return absl::InvalidArgumentError(absl::StrCat("line ", number, ": ", parsed.message()));
  }
  Prepend(std::move(added.components), &lists_.components);
  Prepend(std::move(added.categories), &lists_.categories);
  return absl::OkStatus();
}

const std::string& Rules::ComponentOf(absl::string_view class_name, absl::string_view name) const {
  static const std::string* const kOther = new std::string("other");
  for (const Rule& rule : lists_.components) {
    const absl::string_view subject = rule.by_place ? name : class_name;
    if (!subject.empty() && rule.pattern.Matches(subject)) return rule.component;
  }
  return *kOther;
}

std::optional<Category> Rules::CategoryOf(const ResolvedFrame& frame) const {
  for (const Rule& rule : lists_.categories) {
    if (!rule.by_place && rule.pattern.Matches(frame.function)) return rule.category;
    if (rule.by_place && rule.pattern.Matches(frame.python ? frame.file : frame.module)) return rule.category;
  }
  return std::nullopt;
}

}  // namespace gpumem
