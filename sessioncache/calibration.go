// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

// The estimate of tokens from bytes.

import (
	"math"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Calibration estimates tokens from bytes, by kind of block. It starts from measurements on
// recorded conversations and learns from each usage that an upstream reports. The zero value is
// ready to use.
type Calibration struct {
	learned bool
	weights [wire.Kinds]float32
}

// Sizes are bytes of JSON by kind of block.
type Sizes [wire.Kinds]int

// prior is the number of tokens per byte of a block's JSON, measured by the growth of recorded
// prompts of Claude models. Thinking counts with its signature. Media are not proportional to their
// bytes and weigh little. A KindProgram is not part of the prompt.
var prior = [wire.Kinds]float32{
	wire.KindOther: 0.25, wire.KindToolDef: 0.25, wire.KindText: 0.27, wire.KindThinking: 0.17,
	wire.KindRedactedThinking: 0.17, wire.KindToolUse: 0.28, wire.KindToolResult: 0.31,
	wire.KindImage: 0.01, wire.KindDocument: 0.02, wire.KindServerTool: 0.25,
	wire.KindReasoning: 0.17,
}

// Tokens estimates the tokens of a prompt, or of a part of one.
func (c *Calibration) Tokens(s *Sizes) int {
	w := &prior
	if c.learned {
		w = &c.weights
	}
	var sum float32
	for k, n := range s {
		sum += w[k] * float32(n)
	}
	return int(sum)
}

// PerByte returns the estimated tokens per byte of a kind of block.
func (c *Calibration) PerByte(k wire.Kind) float64 {
	if c.learned {
		return float64(c.weights[k])
	}
	return float64(prior[k])
}

// Learn corrects the weights by the measured tokens of a prompt's growth, with one step of
// normalised least mean squares.
func (c *Calibration) Learn(grown *Sizes, tokens int64) {
	if !c.learned {
		c.weights = prior
	}
	var estimate, norm float32
	for k, n := range grown {
		// This kind is not part of the prompt.
		if prior[k] == 0 {
			continue
		}
		estimate += c.weights[k] * float32(n)
		norm += float32(n) * float32(n)
	}
	// Skip steps that do not look like growth, such as a changed history or another tokenizer.
	if tokens <= 0 || estimate < 200 || float32(tokens) > 4*estimate || 4*float32(tokens) < estimate {
		return
	}
	c.learned = true
	const rate = 0.2
	step := rate * (float32(tokens) - estimate) / norm
	for k, n := range grown {
		if n == 0 {
			continue
		}
		w := c.weights[k] + step*float32(n)
		// A single odd measurement must not move a weight beyond a factor of four.
		c.weights[k] = min(max(w, prior[k]/4), prior[k]*4)
	}
}

// Snapshot writes the learned weights.
func (c *Calibration) Snapshot(w *PackedWriter) {
	w.Bool(c.learned)
	if !c.learned {
		return
	}
	w.Uint(uint64(len(c.weights)))
	for _, x := range c.weights {
		w.Float(float64(x))
	}
}

// Restore reads the weights that [Calibration.Snapshot] wrote, for fewer or more kinds of blocks,
// too.
func (c *Calibration) Restore(r *PackedReader) {
	if c.learned = r.Bool(); !c.learned {
		return
	}
	c.weights = prior
	for i := range r.Count(1) {
		x := r.Float()
		if math.Abs(x) > math.MaxFloat32 {
			r.Fail()
		}
		if i < len(c.weights) {
			c.weights[i] = float32(x)
		}
	}
}
