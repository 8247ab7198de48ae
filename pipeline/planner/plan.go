// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import "math"

// NothingToFold is the reason if no block is worth folding.
const NothingToFold = "nothing to fold"

// Refuses says why the moment forbids every fold, "" if it does not.
func (m *Moment) Refuses() string {
	switch {
	case m.Regretted:
		return "what was folded was missed"
	case m.Loop && m.Bound && m.Begun && m.Epoch == NoEpoch:
		return "the run of calls is open"
	}
	return ""
}

// Make decides which blocks to fold now.
func Make(in *Input, s *Scratch) Plan {
	p := Plan{Decision: Decision{Epoch: in.Epoch, Further: in.Further}}
	if reason := in.Refuses(); reason != "" {
		return p.nothing(reason)
	}
	if p.Candidates = in.appraise(s); p.Candidates == 0 {
		return p.nothing(NothingToFold)
	}
	from, rewritten, gain := in.best(s)
	p.Gain, p.Rewritten = gain, int(rewritten)
	if from == len(in.Blocks) {
		if in.Warm > 0 && in.Write-in.Read > longPayback*in.Read {
			return p.nothing(ReadsCheap)
		}
		return p.nothing("no gain")
	}
	if rewritten > 0 {
		// Near the context window, the client would otherwise summarize, at a higher cost.
		if !in.full() {
			if reason := in.forbids(rewritten, gain); reason != "" {
				return p.nothing(reason)
			}
		}
		p.Epoch, p.Entry = in.epoch(), in.entry(from)
	}
	p.Folds = s.list(from)
	return p
}

func (p Plan) nothing(reason string) Plan {
	p.Epoch, p.Reason = NoEpoch, reason
	return p
}

// epoch names the moment of a fold that invalidates cached history.
func (in *Input) epoch() Epoch {
	switch {
	case in.full():
		return WindowNear
	case in.Epoch != NoEpoch && in.Epoch != Diverged:
		return in.Epoch
	case in.Loop:
		return InLoop
	}
	return TaskBoundary
}

// Gain returns the expected gain of folding now, 0 if a fold is forbidden.
func Gain(in *Input, s *Scratch) float64 {
	if in.Regretted {
		return 0
	}
	in.appraise(s)
	_, rewritten, gain := in.best(s)
	if rewritten > 0 && in.forbids(rewritten, gain) != "" {
		return 0
	}
	return gain
}

// list returns the worthwhile folds from a block on.
func (s *Scratch) list(from int) []Fold {
	s.folds = s.folds[:0]
	for i := from; i < len(s.value); i++ {
		if s.value[i] > 0 {
			s.folds = append(s.folds, Fold{i, s.saving[i], s.part[i]})
		}
	}
	return s.folds
}

// ReadsCheap is the reason of a plan that leaves history alone where a fold takes more than
// longPayback requests to pay back what it writes anew.
const (
	ReadsCheap  = "no gain: reads are too cheap for a fold of warm history"
	longPayback = 40
)

// minReturn is the minimum gain of a fold that breaks a warm cache, as a share of its cost.
const minReturn = 0.1

// stakes limit the cost of folds that have not paid back yet, relative to the cost of the
// conversation so far. The factors of r/(w−r) apply between two tasks and within a run of calls,
// which may end early.
const (
	stakeBetween = 6
	stakeInLoop  = 0.7
)

// forbids says why a fold must not break a warm cache, "" if it may.
func (in *Input) forbids(rewritten, gain float64) string {
	if in.Loop && in.Bound {
		return "thinking is bound and the run of calls is open"
	}
	// Where writing costs no more than reading, the tokens after the fold cost nothing more. The share
	// below would divide by zero.
	if in.Write <= in.Read {
		return ""
	}
	stake := rewritten * (in.Write - in.Read)
	if gain < stake*minReturn {
		return "the gain is small"
	}
	// A conversation may end with this request, so the cost of the fold must be small beside the
	// cost so far. The dearer writing is against reading, the longer a fold takes to pay back, and
	// the more conversations end before.
	share := stakeBetween * in.Read / (in.Write - in.Read)
	if in.Loop {
		share *= stakeInLoop / stakeBetween
	}
	if !in.Begun || stake+math.Max(in.Staked, -in.Spent) > share*in.Spent {
		return "too much at stake so early"
	}
	return ""
}

// nearWindow is the share of the context window from which a prompt counts as near it.
const nearWindow = 0.85

// full reports whether the prompt is so near the context window that a fold is better than the
// client's own summary of the conversation.
func (in *Input) full() bool {
	return in.Window > 0 && in.Total > nearWindow*float64(in.Window) && !(in.Loop && in.Bound)
}
