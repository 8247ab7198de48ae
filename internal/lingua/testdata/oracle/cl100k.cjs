// Writes cl100k_base's tokens in order of rank, each behind a byte of length,
// deflated: cl100k.cjs OUT. Run where js-tiktoken is installed.
'use strict'
const path = require('path')
const ranks = require('module').createRequire(path.join(process.cwd(), 'x.js'))('js-tiktoken/ranks/cl100k_base')
const tokens = []
for (const line of ranks.bpe_ranks.split('\n').filter(Boolean)) {
  const [, first, ...rest] = line.split(' ')
  rest.forEach((t, i) => (tokens[+first + i] = Buffer.from(t, 'base64')))
}
const raw = Buffer.concat(tokens.flatMap((t) => [Buffer.from([t.length]), t]))
require('fs').writeFileSync(process.argv[2], require('zlib').deflateRawSync(raw, { level: 9 }))
