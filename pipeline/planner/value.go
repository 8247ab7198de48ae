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

package planner

// turnCost is what one more answer costs besides its prompt, in uncached input
// tokens: a call of a hundred tokens at five times the input price, and the time.
const turnCost = 1000

// needReplaced is the need of text that an edit has replaced: only an undoing of
// the edit could quote it.
const needReplaced = 0.001

// appraise values every block that could be folded, and counts those that are
// worth it.
func (in *Input) appraise(s *Scratch) (candidates int) {
	n := len(in.Blocks)
	s.value, s.saving, s.part = zeroed(s.value, n), zeroed(s.saving, n), zeroed(s.part, n)
	for i := range in.Blocks {
		b := &in.Blocks[i]
		value := func(tokens, need float64) float64 {
			v := tokens * in.Read * in.Further
			if i >= in.Warm {
				v += tokens * (in.Write - in.Read) // not written at all
			}
			return v - in.care(b.Text)*need*(in.Total*in.Read+tokens*in.Write+turnCost)
		}
		if s.choose(i, b, value) {
			candidates++
		}
	}
	return candidates
}

// choose enters what folding a block is worth, whole or in part, whichever is
// more, and reports whether it is worth anything.
func (s *Scratch) choose(i int, b *Block, value func(tokens, need float64) float64) bool {
	if b.Whole > 0 {
		if v := value(b.Whole, b.Need); v > 0 {
			s.value[i], s.saving[i] = v, b.Whole
		}
	}
	if b.Part > 0 {
		if v := value(b.Part, needReplaced); v > s.value[i] {
			s.value[i], s.saving[i], s.part[i] = v, b.Part, true
		}
	}
	return s.value[i] > 0
}

// care is how many times its price the need of a folded text counts: least
// where nothing is cached, because all of it would have to be written again,
// most for files read, in a run of calls: the agent works with some of them, and much
// for what it has written itself, which it quotes from memory, and for what
// tools of other kinds report: to have a sub-agent's report again, it has to run
// again. What commands have printed is hardly ever wanted back once a task is over.
func (in *Input) care(t Text) float64 {
	switch {
	case t == Written:
		return in.Care * careInputs
	case in.Warm == 0:
		return in.Care * careCold
	case in.Loop && t == File:
		return in.Care * careInLoop
	case in.Loop && t == Report:
		return in.Care * careReports
	case in.Loop:
		return in.Care
	case t == File:
		return in.Care * careReads
	}
	return in.Care * careBetween
}

const (
	careInputs  = 10
	careCold    = 0.25
	careInLoop  = 16
	careReports = 5
	careReads   = 1.5
	careBetween = 0.3
)
