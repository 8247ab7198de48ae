// Writes texts with their ids, a JSON value a line, for TestTokenizersLike:
// fuzz.cjs MODELS MEGABYTES OUT FILE… Half of the text is lines of the files,
// the rest made of runs of characters of many scripts, of combining marks, of
// emoji, of any code points, and of lines of the files with such in them. Run
// where tokenizers is installed.
'use strict'
const fs = require('fs')
const path = require('path')
const { Tokenizer } = require('module').createRequire(path.join(process.cwd(), 'x.js'))('tokenizers')
const [models, megabytes, out, ...files] = process.argv.slice(2)

let state = 1n
function random(n) {
  state = (state * 6364136223846793005n + 1442695040888963407n) & 0xffffffffffffffffn
  return Number((state >> 33n) % BigInt(n))
}
const ranges = [
  [0x20, 0x7e], [0x00, 0x1f], [0x80, 0x24f], [0x300, 0x36f], [0x370, 0x5ff], [0x600, 0x6ff], [0x900, 0xdff], [0xe00, 0xeff],
  [0x1000, 0x11ff], [0x1e00, 0x20ff], [0x2100, 0x2bff], [0x2e00, 0x33ff], [0x4e00, 0x9fff], [0xac00, 0xd7a3], [0xf900, 0xffff],
  [0x1f1e6, 0x1f1ff], [0x1f300, 0x1faff], [0x10000, 0x1ffff], [0x20000, 0x323af], [0xe0000, 0xe01ef], [0, 0x10ffff],
]
const glue = [' ', '  ', '\n', '\r\n', '\t', '\u200d', '\ufe0f', '\u0301', '\u0323', '▁', '##', "'", '.', '<s>', ' <mask> ', '[SEP]', '\u{1f3fb}', 'ab', '\u00a9', '한', '\u3000']
function one([a, b]) {
  const c = a + random(b - a + 1)
  return c >= 0xd800 && c < 0xe000 ? '' : String.fromCodePoint(c)
}
function made() {
  let s = ''
  const own = ranges[random(ranges.length)]
  for (let n = 1 + random(60); n > 0; n--) {
    const k = random(10)
    s += k < 6 ? one(own) : k < 8 ? one(ranges[random(ranges.length)]) : glue[random(glue.length)]
  }
  return s
}
const lines = []
for (const f of files) {
  for (const line of fs.readFileSync(f, 'utf8').split(/(?<=\n)/)) {
    for (let i = 0; i < line.length; i += 2000) lines.push(line.slice(i, i + 2000).toWellFormed?.() ?? line.slice(i, i + 2000))
  }
}
function* texts() {
  for (let i = 0; ; i++) {
    if (i % 3 !== 2 && lines.length) yield lines[random(lines.length)]
    else if (i % 2 && lines.length) {
      const line = lines[random(lines.length)]
      const at = random(line.length + 1)
      yield line.slice(0, at) + made() + line.slice(at)
    } else yield made()
  }
}
async function main() {
  const tokenizers = Object.fromEntries(['bert', 'xlmr'].map((f) => [f, Tokenizer.fromFile(path.join(models, f, 'tokenizer.json'))]))
  const file = fs.openSync(out, 'w')
  let bytes = 0
  for (const raw of texts()) {
    const text = Buffer.from(raw, 'utf8').toString('utf8') // no lone surrogates
    const row = { text }
    for (const [family, t] of Object.entries(tokenizers)) {
      row[family] = (await t.encode(text, null, { addSpecialTokens: false })).getIds()
    }
    fs.writeSync(file, JSON.stringify(row) + '\n')
    bytes += Buffer.byteLength(text)
    if (bytes >= megabytes * 1e6) break
  }
  console.log(bytes, 'bytes')
}
main()
