// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The page's own words in English and Chinese. Names from the trace, sentences of the report and numbers stay as they
// are recorded and as the command line prints them.

const CHINESE = {
  'Timeline': '时间线', 'This moment': '当前时刻', 'Blocks': '内存块', 'Treemap': '矩形树图', 'Call stacks': '调用栈', 'Addresses': '地址图',
  'Leaks': '泄漏', 'Steps': '训练步', 'Modules': '模块', 'Model': '模型', 'Runs': '运行对比', 'Fragmentation': '碎片',
  'Stack by': '堆叠方式', 'category': '类别', 'module': '模块', 'line': '代码行', 'stream': '流', 'Device': '设备', 'Trace': '跟踪',
  'Across': '横轴', 'time': '时间', 'events': '事件', 'Up to': '纵轴上限', 'in use': '使用量', 'reserved': '已保留', 'capacity': '显存容量',
  'allocated': '已分配', 'Whole run': '全程', 'Peak': '峰值', 'End': '结束', 'Play': '播放', 'Stop': '停止', 'Help': '帮助', 'Close': '关闭',
  'Theme: auto': '主题：自动', 'Theme: light': '主题：浅色', 'Theme: dark': '主题：深色', 'simulated GPU': '模拟 GPU',
  'About this trace': '关于此跟踪', 'bytes': '字节', 'share': '占比', 'blocks': '块数', 'size': '大小', 'requested': '请求大小', 'address': '地址',
  'born': '分配于', 'freed': '释放于', 'never': '未释放', 'lived': '存活', 'step': '步', 'stage': '阶段', 'start': '开始', 'peak': '峰值', 'end': '结束',
  'growth': '增长', 'time of peak': '峰值时刻', 'class': '类', 'component': '部件', 'saved': '为反向保存', 'temporary': '临时', 'at once': '同时最多',
  'status': '状态', 'grown': '已增长', 'per iteration': '每次迭代', 'remark': '说明', 'run': '运行', 'of': '的', 'others': '其余',
  'not known': '未知', 'no module': '无模块', 'before the recording or in a gap': '录制之前或间隙中',
  'Search: line, module, 64 MiB, 0x7f… (/)': '搜索：代码行、模块、64 MiB、0x7f… (/)', 'Nothing was allocated on a GPU in this trace.': '此跟踪中没有在 GPU 上分配内存。',
  'No line keeps more memory from step to step.': '没有任何代码行逐步占用更多内存。', 'This trace has no training steps.': '此跟踪没有训练步。',
  'No module allocated in this trace.': '此跟踪中没有模块分配内存。', 'No parameters are known.': '没有已知的参数。',
  'name': '名称', 'shape': '形状', 'dtype': '数据类型', 'trainable': '可训练', 'gradient': '梯度', 'optimizer state': '优化器状态', 'parameters': '参数',
  'nothing matches': '没有匹配项', 'Group by': '分组', 'none': '无', 'largest': '最大', 'beside the first': '与第一个相比', 'growing lines': '增长的行', 'difference': '差值', 'steps': '步数',
  'What is alive at the end, by when it was allocated': '结束时仍存活的内存（按分配时间）', 'evidence': '依据', 'ended': '结束方式', 'Reading this page': '如何阅读此页',
  'running': '运行中', 'has ended': '已结束', 'was killed': '被终止', 'not of this machine': '不在本机', 'read': '已读取', 'a step': '每步', 'in use by all': '全部进程使用', 'not sure': '不确定',
  'requests failed for want of memory': '个请求因显存不足而失败', 'events are missing': '个事件缺失',
  'The connection to gpumemshim serve is lost: these numbers are old.': '与 gpumemshim serve 的连接已断开：这些数字已过时。',
  'block': '内存块', 'before it is freed': '释放之前', 'Not alive at the chosen moment.': '在所选时刻不存活。', 'Its stack is not known.': '调用栈未知。',
  'single event': '个单独事件', 'single events': '个单独事件', 'Reading single events …': '正在读取单独事件…', 'Single events of this place:': '此处的单独事件：',
  'reserved from CUDA': '向 CUDA 申请', 'given back to CUDA': '归还 CUDA', 'never freed': '未释放', 'Its single events are not known.': '单独事件未知。', 'event': '事件',
  'At': '在', 'The gap by': '差距按', 'here': '此处', 'gap here': '此处差距', 'gap of the peaks': '峰值差距',
  'No gap here and none at the peaks.': '此处和峰值都没有差距。', 'Between the peaks, by line': '峰值之间，按代码行', 'before the first step': '第一步之前', 'after the last step': '最后一步之后', 'not running': '未运行',
  'Keys': '按键', 'Save as PNG': '另存为 PNG', 'Save as SVG': '另存为 SVG', 'free': '空闲', 'segments': '段', 'segment': '段', 'pending': '待释放', 'default stream': '默认流',
  'shared pool': '共享池', 'private pool': '私有池', 'kind': '种类', 'pool': '内存池', 'what is where': '分布', 'free ranges': '空闲区间', 'largest free range': '最大空闲区间',
  'peak of reserved': '已保留的峰值', 'returned by empty_cache()': 'empty_cache() 可归还', 'By stream and pool, at the peak of reserved': '已保留达到峰值时，按流和内存池',
  'By stream and pool, at the end': '结束时，按流和内存池', 'Segments at the end': '结束时的段', 'freed, but in use by another stream': '已释放，但另一个流仍在使用',
  'small': '小', 'large': '大', 'expandable small': '可扩展，小', 'expandable large': '可扩展，大',
  'Where blocks lie in their segments, at any moment, is in the tab of addresses.': '任意时刻内存块在段中的位置见“地址图”标签页。',
};

const LANGUAGES = ['en', 'zh'];
let language = 'en';

function t(text) {
  return language === 'zh' ? CHINESE[text] ?? text : text;
}

// The words for a value of a property: what has no name says what that means.
function nameIn(by, name) {
  return name || t(by === 'module' ? 'no module' : 'not known');
}
