// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package main

import (
	"math"
	"slices"

	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/need"
)

// shape is how an additive model is fitted.
type shape struct {
	// ridge draws each value of a table to zero, smooth to those of the bins beside
	// it, in units of the weight of samples; pairRidge is that of pairs.
	ridge, smooth, pairRidge float64
	// pairs is the number of pairs of terms.
	pairs int
}

// deployed is how the models that come with the module are fitted. Blocks are seen
// again at many moments, and all of a conversation are alike, so that tables that
// are held less tightly learn the conversations by heart.
var deployed = shape{ridge: 300, smooth: 1000, pairRidge: 1000, pairs: 4}

// rounds is how often each table is fitted to what the others leave.
const rounds = 12

// nominal are the terms whose bins have no order.
var nominal = [need.Terms]bool{need.TermClass: true, need.TermForm: true}

// fitter fits one additive model, table by table, by Newton's method.
type fitter struct {
	shape
	data  []*sample
	z     []float64
	terms [need.Terms][need.Bins]float64
	pairs []pairTable
	base  float64
}

type pairTable struct {
	a, b  int
	table [need.Bins * need.Bins]float64
}

func (p *pairTable) cell(x *need.Features) int { return int(x[p.a])*need.Bins + int(x[p.b]) }

func additive(data []*sample, s shape) need.Additive {
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
	if s.pairs > 0 {
		f.choose()
		for range rounds {
			f.round()
		}
	}
	return f.model()
}

// round fits each table once.
func (f *fitter) round() {
	for t := range f.terms {
		var g, h [need.Bins]float64
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
					g -= f.smooth * (old[b] - old[b-1])
					h += f.smooth
				}
				if b+1 < need.Bins {
					g -= f.smooth * (old[b] - old[b+1])
					h += f.smooth
				}
			}
			table[b] += step(g, h)
		}
		for i, s := range f.data {
			f.z[i] += table[s.X[t]] - old[s.X[t]]
		}
	}
	for n := range f.pairs {
		p := &f.pairs[n]
		g, h := f.slopes(p)
		old := p.table
		for c := range p.table {
			p.table[c] += step(g[c]-f.pairRidge*old[c], h[c]+f.pairRidge)
		}
		for i, s := range f.data {
			c := p.cell(&s.X)
			f.z[i] += p.table[c] - old[c]
		}
	}
}

// step is most of Newton's, and bounded.
func step(g, h float64) float64 { return max(-1, min(1, 0.7*g/h)) }

// slopes are the first and second derivatives by the cells of a pair.
func (f *fitter) slopes(p *pairTable) (g, h [need.Bins * need.Bins]float64) {
	for i, s := range f.data {
		q := 1 / (1 + math.Exp(-f.z[i]))
		c := p.cell(&s.X)
		if s.needed {
			g[c] += s.weight * (1 - q)
		} else {
			g[c] -= s.weight * q
		}
		h[c] += s.weight * q * (1 - q)
	}
	return g, h
}

// choose takes the pairs that say most beyond what their terms do.
func (f *fitter) choose() {
	type ranked struct {
		pairTable
		gain float64
	}
	var all []ranked
	for a := range need.Terms {
		for b := a + 1; b < need.Terms; b++ {
			p := ranked{pairTable: pairTable{a: a, b: b}}
			g, h := f.slopes(&p.pairTable)
			for c := range g {
				p.gain += g[c] * g[c] / (h[c] + f.pairRidge)
			}
			all = append(all, p)
		}
	}
	slices.SortStableFunc(all, func(a, b ranked) int {
		switch {
		case a.gain > b.gain:
			return -1
		case a.gain < b.gain:
			return 1
		}
		return 0
	})
	for _, p := range all[:min(f.shape.pairs, len(all))] {
		f.pairs = append(f.pairs, p.pairTable)
	}
}

// model rounds what was found.
func (f *fitter) model() (m need.Additive) {
	round := func(v float64) float32 { return float32(math.Round(v*100) / 100) }
	m.Base = round(f.base)
	for t := range f.terms {
		for b, v := range f.terms[t] {
			m.Terms[t][b] = round(v)
		}
	}
	for _, p := range f.pairs {
		out := need.Pair{A: uint8(p.a), B: uint8(p.b)}
		for c, v := range p.table {
			out.Table[c] = round(v)
		}
		m.Pairs = append(m.Pairs, out)
	}
	return m
}
