// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Thousands of boxes in few fills, a frame. On a canvas they are set pixel by pixel and put there as one image: a
// browser that draws by software needs a third of the time for that, of hatched ones a tenth. In SVG they are paths.
//
//   const boxes = boxesFor(context, plot);
//   boxes.begin(fill, alpha);
//   boxes.add(x, y, width, height);   // in the plot, in CSS pixels
//   boxes.end();                      // of this fill
//   boxes.show();

const boxesFor = (context, plot) => (context.hatch === undefined ? new PixelBoxes(context, plot) : new PathBoxes(context));

class PathBoxes {
  constructor(context) {
    this.context = context;
  }

  begin(fill, alpha) {
    this.fill = fill;
    this.context.globalAlpha = alpha;
    this.context.beginPath();
  }

  add(x, y, width, height) { this.context.rect(x, y, width, height); }
  end() { paintFill(this.context, this.fill); }
  show() { this.context.globalAlpha = 1; }
}

const boxesCanvas = document.createElement('canvas');
let boxesImage = null;  // kept from frame to frame

function emptyImage(width, height) {
  if (boxesImage?.width !== width || boxesImage.height !== height) boxesImage = new ImageData(width, height);
  else new Uint32Array(boxesImage.data.buffer).fill(0);
  return boxesImage;
}

const fillTiles = new Map();

// The colours of a tile of a fill, row by row, as pixels of an image have them.
function pixelsOf(fill) {
  const key = `${fill.color} ${fill.hatch}`;
  if (!fillTiles.has(key)) {
    const context = element('canvas', {width: HATCH_TILE, height: HATCH_TILE}).getContext('2d', {willReadFrequently: true});
    paintFill(context, fill, [0, 0, HATCH_TILE, HATCH_TILE]);
    fillTiles.set(key, new Uint32Array(context.getImageData(0, 0, HATCH_TILE, HATCH_TILE).data.buffer));
  }
  return fillTiles.get(key);
}

class PixelBoxes {
  constructor(context, plot) {
    Object.assign(this, {context, plot, ratio: context.getTransform().a});
    [this.width, this.height] = [plot.width, plot.height].map((length) => Math.ceil(length * this.ratio));
    this.image = emptyImage(this.width, this.height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.columns = Uint8Array.from({length: this.width}, (_, column) => Math.floor(column / this.ratio) % HATCH_TILE);  // in the tile
  }

  begin(fill, alpha) {
    this.tile = pixelsOf(fill);
    if (alpha < 1) {
      this.tile = this.tile.slice();
      const channels = new Uint8Array(this.tile.buffer);
      for (let at = 3; at < channels.length; at += 4) channels[at] = Math.round(alpha * 255);
    }
    this.isPlain = fill.hatch === 'plain';
  }

  add(x, y, width, height) {
    const {plot, ratio, pixels, tile, columns} = this;
    const place = (length, most) => Math.min(Math.max(Math.round(length * ratio), 0), most);
    const left = place(x - plot.x, this.width), right = place(x - plot.x + width, this.width);
    const bottom = place(y - plot.y + height, this.height);
    for (let row = place(y - plot.y, this.height); row < bottom; ++row) {
      const at = row * this.width;
      if (this.isPlain) pixels.fill(tile[0], at + left, at + right);
      else {
        const line = (Math.floor(row / ratio) % HATCH_TILE) * HATCH_TILE;
        for (let column = left; column < right; ++column) pixels[at + column] = tile[line + columns[column]];
      }
    }
  }

  end() {}

  show() {
    if (boxesCanvas.width !== this.width || boxesCanvas.height !== this.height) [boxesCanvas.width, boxesCanvas.height] = [this.width, this.height];
    boxesCanvas.getContext('2d').putImageData(this.image, 0, 0);
    this.context.drawImage(boxesCanvas, this.plot.x, this.plot.y, this.width / this.ratio, this.height / this.ratio);
  }
}
