// Runs 512 tokens through ONNX models on one core, five times each after one
// more, and tells the core-seconds of the quickest: ort.cjs MODEL… Run where
// onnxruntime-node is installed.
'use strict'
const path = require('path')
const ort = require('module').createRequire(path.join(process.cwd(), 'x.js'))('onnxruntime-node')
async function main() {
  for (const model of process.argv.slice(2)) {
    const session = await ort.InferenceSession.create(model, { intraOpNumThreads: 1, interOpNumThreads: 1 })
    const tensor = (f) => new ort.Tensor('int64', BigInt64Array.from({ length: 512 }, (_, i) => BigInt(f(i))), [1, 512])
    const input = { input_ids: tensor((i) => 1000 + 7 * i), attention_mask: tensor(() => 1) }
    let best = Infinity
    for (let i = 0; i < 6; i++) {
      const before = process.cpuUsage()
      await session.run(input)
      const { user, system } = process.cpuUsage(before)
      if (i) best = Math.min(best, (user + system) / 1e6)
    }
    console.log(path.basename(model), best.toFixed(3), 'core-s')
  }
}
main()
