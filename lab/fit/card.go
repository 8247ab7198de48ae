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
	"bytes"
	"fmt"
	"go/format"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/need"
)

// card describes the data, the folds, and how well the models of the folds foretell
// what they have not seen.
func (f *fitted) card() []byte {
	var s bytes.Buffer
	s.WriteString(cardHead)
	fmt.Fprintf(&s, "| owner | fold | conversations | requests | agents |\n|---|---|---|---|---|\n")
	for _, owner := range slices.Sorted(maps.Keys(f.fold)) {
		conversations, calls, agents := 0, 0, map[string]bool{}
		for _, c := range f.conversations {
			if c.Owner() == owner {
				conversations++
				calls += c.Calls
				agents[c.Agent] = true
			}
		}
		fmt.Fprintf(&s, "| %s | %d | %d | %d | %s |\n", owner, f.fold[owner], conversations, calls, strings.Join(slices.Sorted(maps.Keys(agents)), ", "))
	}
	s.WriteString("\nBlocks at moments, weighted; out of fold. *Loss* is the mean logarithmic loss, beside that of one who knows\nnothing but how many are needed in all.\n\n")
	fmt.Fprintf(&s, "| blocks | samples | needed | foretold | loss | of the mean |\n|---|---|---|---|---|---|\n")
	for g, name := range [need.Groups]string{"results of commands, searches and others", "files read", "inputs of calls"} {
		var t tally
		f.unseen(func(o *sample, p float64, _ string) {
			if int(o.Group) == g {
				t.add(o, p)
			}
		})
		rate := t.found / t.weight
		fmt.Fprintf(&s, "| %s | %d | %.2f %% | %.2f %% | %.4f | %.4f |\n", name, t.n, 100*rate, 100*t.expected/t.weight, t.loss/t.weight, -rate*math.Log(rate)-(1-rate)*math.Log(1-rate))
	}
	s.WriteString("\n| foretold, from | to | share of samples | foretold, mean | found |\n|---|---|---|---|---|\n")
	var bands [11]tally
	agents := map[string]*tally{}
	all := 0.0
	f.unseen(func(o *sample, p float64, agent string) {
		bands[band(p)].add(o, p)
		if agents[agent] == nil {
			agents[agent] = new(tally)
		}
		agents[agent].add(o, p)
		all += o.weight
	})
	for k, t := range bands {
		if t.weight > 0 {
			fmt.Fprintf(&s, "| %.2f %% | %.2f %% | %.1f %% | %.2f %% | %.2f %% |\n", 100*edge(k), 100*edge(k+1), 100*t.weight/all, 100*t.expected/t.weight, 100*t.found/t.weight)
		}
	}
	s.WriteString("\n| agent | samples | foretold | found |\n|---|---|---|---|\n")
	for _, agent := range slices.Sorted(maps.Keys(agents)) {
		t := agents[agent]
		fmt.Fprintf(&s, "| %s | %d | %.2f %% | %.2f %% |\n", agent, t.n, 100*t.expected/t.weight, 100*t.found/t.weight)
	}
	return s.Bytes()
}

const cardHead = `# The need model

Written by ` + "`go run ./lab/fit <folder>...`" + `; do not edit. The model is described in [planner.md](planner.md), what the planner makes
of it is measured in [replay.md](replay.md).

A block is *needed* at a moment if an edit quotes, from then on, a line that no later block held. For each of three kinds of blocks
the chance is foretold by an additive logistic model: each of ` + "`need.Terms`" + ` terms, in sixteen bins, adds what a table says. All requests that follow a prompt of a person are fitted on, and one in four within runs of calls.

The conversations are split by the owner of the repository that was worked on, so that no repository, and nobody who works on several of
them, is on both sides. Fold k is foretold by a model that was fitted on all others; the model that comes with the module was fitted on all.

`

// edge is where a band of chances begins.
func edge(k int) float64 {
	if k == 0 {
		return 0
	}
	return math.Min(1, math.Pow(2, float64(k-11)))
}

func band(p float64) int {
	k := 0
	for k < 10 && p >= edge(k+1) {
		k++
	}
	return k
}

// tally sums up samples.
type tally struct {
	n                             int
	weight, found, expected, loss float64
}

func (t *tally) add(s *sample, p float64) {
	t.n++
	t.weight += s.weight
	t.expected += p * s.weight
	p = min(max(p, 1e-6), 1-1e-6)
	if s.needed {
		t.found += s.weight
		t.loss -= s.weight * math.Log(p)
	} else {
		t.loss -= s.weight * math.Log(1-p)
	}
}

// unseen calls f for each sample with what a model foretells that has not seen its
// owner, and with its agent.
func (f *fitted) unseen(visit func(s *sample, p float64, agent string)) {
	for i, c := range f.conversations {
		m := f.models[f.fold[c.Owner()]]
		for j := range f.played[i] {
			s := &f.played[i][j]
			visit(s, m.Need(&s.Appraisal), c.Agent)
		}
	}
}

// source gives a model as Go.
func source(m *need.Model) []byte {
	var s bytes.Buffer
	s.WriteString(license + "// Code generated by go run ./lab/fit. DO NOT EDIT.\n\npackage need\n\n// Default is the model that comes with the module. See docs/need-model.md.\nvar Default = &Model{\n")
	for g := range m {
		a := &m[g]
		fmt.Fprintf(&s, "{\nBase: %v,\nTerms: [Terms][Bins]float32{\n", a.Base)
		for t := range a.Terms {
			values(&s, a.Terms[t][:])
			s.WriteString(",\n")
		}
		s.WriteString("},\n},\n")
	}
	s.WriteString("}\n")
	out, err := format.Source(s.Bytes())
	if err != nil {
		panic(err) // what is written above is Go
	}
	return out
}

func values(s *bytes.Buffer, list []float32) {
	s.WriteString("{")
	for i, v := range list {
		if i > 0 {
			s.WriteString(", ")
		}
		fmt.Fprintf(s, "%v", v)
	}
	s.WriteString("}")
}

const license = `// Copyright 2026 The llm_cache Authors
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

`
