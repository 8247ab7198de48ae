// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"

	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// shape holds the regularization of an additive model.
type shape struct {
	// ridge pulls each value of a table towards zero, smooth towards its neighbouring bins, in
	// units of the weight of samples.
	ridge, smooth float64
}

// deployed is the shape of the module's own models. Blocks recur at many moments, and the blocks of
// a conversation are alike. So models with weaker regularization learn the conversations by heart.
var deployed = shape{ridge: 300, smooth: 1000}

// rounds is the number of fits of each table to the residuals of the others.
const rounds = 24

// nominal are the terms with unordered bins.
var nominal = [pipeline.Terms]bool{pipeline.TermForm: true}

// fitter fits one additive model, table by table, by Newton's method.
type fitter struct {
	shape
	data  []*sample
	z     []float64
	terms [pipeline.Terms][pipeline.NeedBins]float64
	base  float64
}

func additive(data []*sample, s shape) pipeline.Additive {
	f := &fitter{shape: s, data: data, z: make([]float64, len(data))}
	var found, all float64
	for _, s := range data {
		all += s.weight
		if s.needed {
			found += s.weight
		}
	}
	rate := (found + 1) / (all + 100)
	f.base = math.Log(rate / (1 - rate))
	for i := range f.z {
		f.z[i] = f.base
	}
	for range rounds {
		f.round()
	}
	return f.model()
}

// round fits each table once.
func (f *fitter) round() {
	for t := range f.terms {
		var g, h [pipeline.NeedBins]float64
		for i, s := range f.data {
			p := 1 / (1 + math.Exp(-f.z[i]))
			b := s.X[t]
			if s.needed {
				g[b] += s.weight * (1 - p)
			} else {
				g[b] -= s.weight * p
			}
			h[b] += s.weight * p * (1 - p)
		}
		table := &f.terms[t]
		old := *table
		for b := range table {
			g, h := g[b]-f.ridge*old[b], h[b]+f.ridge
			if !nominal[t] {
				if b > 0 {
					g -= f.smooth * (old[b] - old[b-1]) //nolint:gosec // b is above 0
					h += f.smooth
				}
				if b+1 < pipeline.NeedBins {
					g -= f.smooth * (old[b] - old[b+1]) //nolint:gosec // b+1 is below need.Bins
					h += f.smooth
				}
			}
			table[b] += step(g, h)
		}
		for i, s := range f.data {
			f.z[i] += table[s.X[t]] - old[s.X[t]]
		}
	}
}

// step is a damped and bounded Newton step.
func step(g, h float64) float64 { return max(-1, min(1, 0.7*g/h)) }

// model returns the fitted model, rounded.
func (f *fitter) model() (m pipeline.Additive) {
	round := func(v float64) float32 { return float32(math.Round(v*100) / 100) }
	m.Base = round(f.base)
	for t := range f.terms {
		for b, v := range f.terms[t] {
			m.Terms[t][b] = round(v)
		}
	}
	return m
}
