// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/sweep/words.h"

#include <iterator>
#include <span>

#include "absl/strings/str_replace.h"

namespace gpumem::plan {
namespace {

struct Pair {
  absl::string_view english, chinese;
};

// In the order of SweepWord.
constexpr Pair kWords[] = {
    {"simulated: no GPU was used", "模拟运行：未使用 GPU"},
    {"on a GPU", "在 GPU 上运行"},
    {"configuration", "配置"},
    {"configurations", "个配置"},
    {"steps", "步数"},
    {"allocated", "已分配"},
    {"reserved", "已保留"},
    {"nvidia-smi", "nvidia-smi"},
    {"result", "结果"},
    {"time", "用时"},
    {"largest that fits", "放得下的最大配置"},
    {"of the device free", "显存余量"},
    {"next larger", "下一个更大的配置"},
    {"left", "剩余"},
    {"missing", "还差"},
    {"least memory", "显存最少的配置"},
    {"no configuration fits", "没有放得下的配置"},
    {"not known what fits: no run got through", "无法判断能否放下：没有一次运行成功"},
    {"How memory grows", "显存随参数的变化"},
    {"What the memory is made of", "显存构成"},
    {"this one does not fit; none that fits could be looked into", "该配置放不下；没有放得下且可分析的配置"},
    {"memory types at the peak", "峰值时的内存类型"},
    {"components", "组件"},
    {"operations", "操作"},
    {"stages", "阶段"},
    {"at the peak", "峰值时"},
    {"total allocated", "累计分配"},
    {"peak", "峰值"},
    {"growth", "增量"},
    {"times", "次数"},
    {"lost", "丢失"},
    {"events", "个事件"},
    {"Files", "文件"},
    {"note", "说明"},
    {"configurations did not run", "个配置未运行"},
    {"no configuration ran", "没有运行任何配置"},
    {"more: the files have all", "项：文件中有全部"},
};
static_assert(std::size(kWords) == static_cast<size_t>(SweepWord::kAndMore) + 1);

constexpr Pair kStates[] = {
    {"fits", "放得下"},    {"out of memory", "显存不足"},           {"failed", "失败"},
    {"timed out", "超时"}, {"waits for a value", "等待未计算的值"}, {"no CUDA device", "未使用 CUDA"}};
static_assert(std::size(kStates) == static_cast<size_t>(RowState::kNoCuda) + 1);

struct Named {
  absl::string_view name;
  Pair title;
};

constexpr Named kMemoryTypes[] = {{"parameter", {"parameters", "参数"}},
                                  {"buffer", {"buffers", "缓冲区"}},
                                  {"gradient", {"gradients", "梯度"}},
                                  {"per_sample_gradient", {"per-sample gradients", "逐样本梯度"}},
                                  {"optimizer_state", {"optimizer state", "优化器状态"}},
                                  {"activation", {"activations", "激活"}},
                                  {"temporary", {"temporaries", "临时张量"}},
                                  {"input", {"inputs", "输入"}},
                                  {"workspace", {"workspaces", "工作区"}},
                                  {"communication", {"communication", "通信"}},
                                  {"kv_cache", {"KV cache", "KV 缓存"}},
                                  {"kept", {"kept tensors", "保留的张量"}},
                                  {"graph_pool", {"CUDA graph pool", "CUDA 图内存池"}},
                                  {"allocator_overhead", {"allocator overhead", "分配器开销"}},
                                  {"context", {"CUDA context", "CUDA 上下文"}},
                                  {"library", {"other libraries", "其他库"}},
                                  {"unknown", {"unknown", "未知"}}};

constexpr Named kComponents[] = {{"attention", {"attention", "注意力"}},
                                 {"mlp", {"MLP", "多层感知机"}},
                                 {"embedding", {"embedding", "嵌入层"}},
                                 {"norm", {"norm", "归一化"}},
                                 {"lora", {"LoRA", "LoRA"}},
                                 {"head", {"head", "输出头"}},
                                 {"conv", {"convolution", "卷积"}},
                                 {"linear", {"linear", "线性层"}},
                                 {"dropout", {"dropout", "随机失活"}},
                                 {"loss", {"loss", "损失"}},
                                 {"root", {"model itself", "模型本身"}},
                                 {"block", {"block", "层"}},
                                 {"nonlinearity", {"nonlinearity", "激活函数"}},
                                 {"pooling", {"pooling", "池化"}},
                                 {"rotary", {"rotary embedding", "旋转位置编码"}},
                                 {"workspace", {"workspaces", "工作区"}},
                                 {"input", {"inputs", "输入数据"}},
                                 {"optimizer", {"optimizer", "优化器"}},
                                 {"communication", {"communication", "通信"}},
                                 {"kv_cache", {"KV cache", "KV 缓存"}},
                                 {"graph_pool", {"CUDA graphs", "CUDA 图"}},
                                 {"library", {"libraries", "库"}},
                                 {"other", {"other", "其他"}}};

constexpr Named kStageTitles[] = {{"forward", {"forward", "前向传播"}},
                                  {"loss", {"loss", "损失"}},
                                  {"backward", {"backward", "反向传播"}},
                                  {"optimizer", {"optimizer", "优化器更新"}},
                                  {"optimizer_step", {"optimizer step", "优化器更新"}},
                                  {"zero_grad", {"zero_grad", "梯度清零"}},
                                  {"data", {"data", "数据"}},
                                  {"model_load", {"model load", "模型加载"}},
                                  {"model_construction", {"model construction", "模型构建"}},
                                  {"data_preparation", {"data preparation", "数据集准备"}},
                                  {"wrapping", {"wrapping", "FSDP/DDP 包装"}},
                                  {"optimizer_setup", {"optimizer set-up", "优化器设置"}},
                                  {"privacy_setup", {"privacy engine set-up", "隐私引擎设置"}},
                                  {"lora_setup", {"LoRA set-up", "LoRA设置"}},
                                  {"training", {"training", "训练循环"}},
                                  {"inference", {"inference", "推理"}},
                                  {"evaluation", {"evaluation", "评估"}},
                                  {"checkpoint_load", {"checkpoint load", "检查点加载"}},
                                  {"checkpoint_save", {"checkpoint save", "检查点保存"}},
                                  {"collective", {"collectives", "集合通信"}},
                                  {"gc", {"gc / empty_cache", "垃圾回收"}},
                                  {"other", {"other", "其他"}}};

absl::string_view In(const Pair& pair, SweepLanguage language) {
  return language == SweepLanguage::kChinese ? pair.chinese : pair.english;
}

std::string Title(std::span<const Named> table, const std::string& name, SweepLanguage language) {
  for (const Named& named : table) {
    if (named.name == name) return std::string(In(named.title, language));
  }
  return absl::StrReplaceAll(name, {{"_", " "}});
}

}  // namespace

absl::string_view Word(SweepWord word, SweepLanguage language) {
  return In(kWords[static_cast<size_t>(word)], language);
}

absl::string_view StateTitle(RowState state, SweepLanguage language) {
  return In(kStates[static_cast<size_t>(state)], language);
}

std::string MemoryTypeTitle(const std::string& name, SweepLanguage language) {
  return Title(kMemoryTypes, name, language);
}
std::string ComponentTitle(const std::string& name, SweepLanguage language) {
  return Title(kComponents, name, language);
}
std::string StageTitleOf(const std::string& name, SweepLanguage language) {
  return Title(kStageTitles, name, language);
}

}  // namespace gpumem::plan
