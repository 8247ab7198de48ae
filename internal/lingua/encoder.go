// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lingua

import (
	"context"
	"fmt"
	"math"
	"os"
)

// encoder is a BERT or XLM-RoBERTa encoder, which compute the same, with a classifier.
type encoder struct {
	config config
	file   *os.File
	w      *weights
	pool   pool

	words     tensor // rows are read on demand
	positions []float32
	types     []float32
	norm      norm32
	blocks    []block
	weight    []float32
	bias      []float32
	idle      chan *scratch
}

// block is one layer of the encoder.
type block struct {
	attention     attention
	inner, output layer
	norm          norm32
}

// scratch is the memory of one run.
type scratch struct {
	x, query, key, value, context, inner matrix
	heads                                []head
	row                                  []byte
}

func newEncoder(c config, path string, o Options) (*encoder, error) {
	w, file, err := openWeights(path)
	if err != nil {
		return nil, err
	}
	e := &encoder{config: c, file: file, w: w, pool: pool{max(1, o.Threads)}, idle: make(chan *scratch, 1)}
	if err := e.load(o.Int8); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return e, nil
}

// loader reads tensors until the first error.
type loader struct {
	err error
}

func load[T any](l *loader, read func() (T, error)) T {
	var v T
	if l.err == nil {
		v, l.err = read()
	}
	return v
}

func (e *encoder) load(int8s bool) error {
	c, w := e.config, e.w
	p, h := c.prefix(), c.Hidden
	l := new(loader)
	norm := func(name string) norm32 {
		return load(l, func() (norm32, error) { return w.norm(name, h, c.Epsilon) })
	}
	dense := func(name string, n, m int) layer {
		return load(l, func() (layer, error) { return w.dense(name, n, m, int8s) })
	}
	matrix := func(name string, n, m int) []float32 {
		return load(l, func() ([]float32, error) { return w.matrix(name, n, m) })
	}
	e.words = load(l, func() (tensor, error) { return w.tensor(p+"embeddings.word_embeddings.weight", 0, h) })
	e.positions = matrix(p+"embeddings.position_embeddings.weight", c.Positions, h)
	e.types = matrix(p+"embeddings.token_type_embeddings.weight", 0, h)
	e.norm = norm(p + "embeddings.LayerNorm")
	for i := 0; i < c.Layers && l.err == nil; i++ {
		name := fmt.Sprintf("%sencoder.layer.%d.", p, i)
		e.blocks = append(e.blocks, block{
			attention: attention{
				query:  dense(name+"attention.self.query", h, h),
				key:    dense(name+"attention.self.key", h, h),
				value:  dense(name+"attention.self.value", h, h),
				output: dense(name+"attention.output.dense", h, h),
				norm:   norm(name + "attention.output.LayerNorm"),
			},
			inner:  dense(name+"intermediate.dense", c.Intermediate, h),
			output: dense(name+"output.dense", h, c.Intermediate),
			norm:   norm(name + "output.LayerNorm"),
		})
	}
	e.weight = matrix("classifier.weight", labels, h)
	e.bias = load(l, func() ([]float32, error) { return w.vector("classifier.bias", labels) })
	return l.err
}

// labels is the number of the classifier's labels: drop and keep.
const labels = 2

// matrix reads a whole two-dimensional tensor.
func (w *weights) matrix(name string, n, m int) ([]float32, error) {
	t, err := w.tensor(name, n, m)
	if err != nil {
		return nil, err
	}
	v := make([]float32, t.Shape[0]*m)
	if err := w.read(v, t, 0, nil); err != nil {
		return nil, fmt.Errorf("tensor %q: %w", name, err)
	}
	return v, nil
}

// position is a token and its position.
type position struct {
	id    int32
	place int
}

// logits runs tokens through the encoder and returns the classifier's two logits for each, drop
// before keep.
func (e *encoder) logits(ctx context.Context, tokens []position) ([]float32, error) {
	if len(tokens) == 0 {
		return nil, nil
	}
	// Reuse the memory of an earlier run, unless it is in use.
	var s *scratch
	select {
	case s = <-e.idle:
	default:
		s = &scratch{heads: make([]head, e.pool.threads)}
	}
	defer func() {
		select {
		case e.idle <- s:
		default:
		}
	}()
	if err := e.embed(s, tokens); err != nil {
		return nil, err
	}
	// Between layers the caller may let requests run first.
	for i := range e.blocks {
		if err := pause(ctx); err != nil {
			return nil, err
		}
		e.blocks[i].apply(&e.pool, s, e.config.Heads)
	}
	out := make([]float32, 0, labels*len(tokens))
	for i := range tokens {
		for label := range labels {
			sum := e.bias[label]
			weight := e.weight[label*e.config.Hidden:]
			for j, v := range s.x.row(i) {
				sum += v * weight[j]
			}
			out = append(out, sum)
		}
	}
	return out, nil
}

func (e *encoder) embed(s *scratch, tokens []position) error {
	h := e.config.Hidden
	s.x.reshape(len(tokens), h)
	clear(s.x.data)
	s.row = make([]byte, h*int(e.words.width()))
	for i, t := range tokens {
		if t.id < 0 || int(t.id) >= e.words.Shape[0] {
			return fmt.Errorf("token %d has no embedding", t.id)
		}
		if t.place < 0 || t.place >= e.config.Positions {
			return fmt.Errorf("position %d is out of range", t.place)
		}
		row := s.x.row(i)
		if err := e.w.read(row, e.words, int(t.id)*h, s.row); err != nil {
			return fmt.Errorf("embedding of token %d: %w", t.id, err)
		}
		for j, v := range e.positions[t.place*h:][:h] {
			// All tokens have type 0.
			row[j] += v + e.types[j]
		}
		e.norm.apply(row)
	}
	return nil
}

func (b *block) apply(p *pool, s *scratch, heads int) {
	b.attention.apply(p, s, &s.x, heads)
	b.inner.apply(p, &s.inner, &s.x)
	p.each(s.inner.rows, func(_, from, to int) {
		for i := from; i < to; i++ {
			kernel.gelu(s.inner.data[i*s.inner.stride:][:tiles(s.inner.cols, 8)*8])
		}
	})
	b.output.apply(p, &s.query, &s.inner)
	b.norm.addAndApply(&s.x, &s.query)
}

// keeping turns pairs of logits into the probability of the second label.
func keeping(logits []float32) []float32 {
	p := make([]float32, len(logits)/labels)
	for i := range p {
		drop, keep := logits[labels*i], logits[labels*i+1]
		// Subtracting the maximum avoids an overflow.
		top := max(drop, keep)
		d, k := float32(math.Exp(float64(drop-top))), float32(math.Exp(float64(keep-top)))
		p[i] = k / (d + k)
	}
	return p
}
