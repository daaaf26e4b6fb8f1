// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Search: a regular expression over function, file and module. Each frame is tried once, however often it stands in the
// tree. A matched box below another matched box is not counted twice.

class Search {
  constructor(frames) {
    this.frames = frames;
    this.clear();
  }

  clear() {
    this.query = '';
    this.error = '';
    this.found = null;  // per frame: 1 = matches
  }

  get active() {
    return this.found !== null;
  }

  set(query) {
    this.clear();
    this.query = query;
    if (query === '') return;
    let pattern;
    try {
      pattern = new RegExp(query, 'i');
    } catch (error) {
      this.error = t('not a regular expression: {w}', {w: error.message.replace(/^Invalid regular expression: /, '')});
      return;
    }
    this.pattern = pattern;
    this.found = new Uint8Array(0);
    this.update();
  }

  // Frames may have been added: groups.
  update() {
    if (!this.active || this.found.length === this.frames.total) return;
    this.found = Uint8Array.from({length: this.frames.total}, (_, i) => (this.pattern.test(this.frames.searched(i)) ? 1 : 0));
  }

  matches(frame) {
    return this.found !== null && frame >= 0 && this.found[frame] === 1;
  }

  // The outermost matching nodes below `root` (itself included), left to right.
  matchesBelow(tree, root) {
    const nodes = [];
    const waiting = [root];
    while (waiting.length > 0) {
      const node = waiting.pop();
      if (this.matches(tree.frame[node])) {
        nodes.push(node);
        continue;
      }
      for (let c = tree.childStart[node + 1] - 1; c >= tree.childStart[node]; --c) waiting.push(tree.children[c]);
    }
    return nodes;
  }
}
