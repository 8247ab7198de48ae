// Writes how BertNormalizer and BertPreTokenizer treat each code point between
// two letters: classes.cjs OUT. 0 is part of the word, 1 dropped, 2 a space,
// 3 a word of its own, 9 a surrogate. Run where tokenizers is installed.
'use strict'
const path = require('path')
const t = require('module').createRequire(path.join(process.cwd(), 'x.js'))('tokenizers')
const normalizer = t.bertNormalizer({ cleanText: true, handleChineseChars: true, stripAccents: false, lowercase: false })
const splitter = t.bertPreTokenizer()

function classOf(c) {
  if (c >= 0xd800 && c < 0xe000) return 9
  const s = normalizer.normalizeString('a' + String.fromCodePoint(c) + 'b')
  if (s === 'ab') return 1
  return [0, 2, 3][splitter.preTokenizeString(s).length - 1]
}

const ranges = []
for (let c = 0; c <= 0x10ffff; c++) {
  const k = classOf(c)
  const last = ranges[ranges.length - 1]
  if (last && last[2] === k) last[1] = c
  else ranges.push([c, c, k])
}
require('fs').writeFileSync(process.argv[2], JSON.stringify(ranges) + '\n')
