// Answers the questions of reference.py, one JSON value a line: tokens, decoded
// tokens, lengths in cl100k, logits. Run where tokenizers, onnxruntime-node and
// js-tiktoken are installed.
'use strict'
const path = require('path')
const { createRequire } = require('module')
const need = createRequire(path.join(process.cwd(), 'x.js'))
const { Tokenizer } = need('tokenizers')
const ort = need('onnxruntime-node')
const { getEncoding } = need('js-tiktoken')

const tokenizers = {}
const sessions = {}
const cl100k = getEncoding('cl100k_base')

const verbs = {
  open({ file, special }) {
    tokenizers[file] = Tokenizer.fromFile(file)
    if (special) tokenizers[file].addSpecialTokens(special)
    return tokenizers[file].getVocabSize()
  },
  async encode({ file, texts }) {
    const out = []
    for (const text of texts) {
      const e = await tokenizers[file].encode(text, null, { addSpecialTokens: false })
      out.push([e.getTokens(), e.getIds()])
    }
    return out
  },
  decode({ file, tokens }) {
    return tokens.length ? tokenizers[file].getDecoder().decode(tokens) : ''
  },
  ids({ file, tokens }) {
    return tokens.map((t) => tokenizers[file].tokenToId(t) ?? null)
  },
  tokens({ file, ids }) {
    return ids.map((i) => tokenizers[file].idToToken(i))
  },
  count({ texts }) {
    return texts.map((t) => cl100k.encode(t, 'all').length)
  },
  async logits({ model, ids, mask }) {
    const options = { intraOpNumThreads: 1, interOpNumThreads: 1 }
    sessions[model] ??= await ort.InferenceSession.create(model, options)
    const tensor = (rows) =>
      new ort.Tensor('int64', BigInt64Array.from(rows.flat().map(BigInt)), [rows.length, rows[0].length])
    const out = await sessions[model].run({ input_ids: tensor(ids), attention_mask: tensor(mask) })
    return { data: Array.from(out.logits.data), shape: out.logits.dims }
  },
}

const lines = require('readline').createInterface({ input: process.stdin, crlfDelay: Infinity })
let turn = Promise.resolve()
lines.on('line', (line) => {
  turn = turn.then(async () => {
    const { verb, ...args } = JSON.parse(line)
    let answer
    try {
      answer = { ok: await verbs[verb](args) }
    } catch (e) {
      answer = { error: String(e) }
    }
    process.stdout.write(JSON.stringify(answer) + '\n')
  })
})
