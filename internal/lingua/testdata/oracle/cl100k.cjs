// Writes cl100k_base as merges, deflated: cl100k.cjs OUT. First come the 256 tokens of one
// byte in order of rank, then of every further token the ranks of the two that it is made
// of: all low bytes, left ones before right ones, then the middle ones, then the high ones.
// Run where js-tiktoken is installed.
'use strict'
const path = require('path')
const ranks = require('module').createRequire(path.join(process.cwd(), 'x.js'))('js-tiktoken/ranks/cl100k_base')
const tokens = []
for (const line of ranks.bpe_ranks.split('\n').filter(Boolean)) {
  const [, first, ...rest] = line.split(' ')
  rest.forEach((t, i) => (tokens[+first + i] = Buffer.from(t, 'base64').toString('latin1')))
}
const rankOf = new Map(tokens.map((t, i) => [t, i]))
const halves = [[], []]
for (const [rank, token] of tokens.entries()) {
  if (rank < 256) continue
  const parts = [...token]
  while (parts.length > 2) {
    let best = rank
    let at = -1
    for (let i = 0; i + 1 < parts.length; i++) {
      const r = rankOf.get(parts[i] + parts[i + 1])
      if (r < best) [best, at] = [r, i]
    }
    if (at < 0) throw new Error(`token ${rank} is no merge`)
    parts.splice(at, 2, parts[at] + parts[at + 1])
  }
  halves.forEach((half, i) => half.push(rankOf.get(parts[i])))
}
const planes = [0, 8, 16].flatMap((shift) => halves.map((half) => Buffer.from(half.map((r) => (r >> shift) & 255))))
const raw = Buffer.concat([Buffer.from(tokens.slice(0, 256).join(''), 'latin1'), ...planes])
require('fs').writeFileSync(process.argv[2], require('zlib').deflateRawSync(raw, { level: 9 }))
