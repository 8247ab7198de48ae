// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import "math"

// NothingToFold is the reason where no block is worth folding.
const NothingToFold = "nothing to fold"

// Refuses says why nothing is folded at a moment, whatever the history, "" if
// something may be.
func (m *Moment) Refuses() string {
	switch {
	case m.Regretted:
		return "what was folded was missed"
	case m.Loop && m.Bound && m.Begun && m.Epoch == NoEpoch:
		return "the run of calls is open"
	}
	return ""
}

// Make decides what to fold now.
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
		return p.nothing("no gain")
	}
	if rewritten > 0 {
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

// Leave is the plan to leave history alone, for some reason.
func Leave(further float64, reason string) Plan {
	p := Plan{Decision: Decision{Further: further}}
	return p.nothing(reason)
}

func (p Plan) nothing(reason string) Plan {
	p.Epoch, p.Reason = NoEpoch, reason
	return p
}

// epoch names the moment of a fold that throws cached history away.
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

// Gain returns what folding now is expected to earn, 0 where it is not to be done.
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

// list returns the folds of everything worthwhile from a block on.
func (s *Scratch) list(from int) []Fold {
	s.folds = s.folds[:0]
	for i := from; i < len(s.value); i++ {
		if s.value[i] > 0 {
			s.folds = append(s.folds, Fold{i, s.saving[i], s.part[i]})
		}
	}
	return s.folds
}

// minReturn is what a fold that breaks a warm cache must be expected to gain,
// as a multiple of what it costs at first.
const minReturn = 0.1

// stakes bound what folds that have not paid back yet may cost, as a share of
// what the conversation has cost so far: so many times r/(w−r), between two
// tasks and in a run of calls, which may end sooner than it seems. The dearer
// writing is against reading, the longer a fold takes to pay back, and the
// more conversations end before.
const (
	stakeBetween = 6
	stakeInLoop  = 0.7
)

// forbids says why a fold that breaks a warm cache is not made, "" if it is.
func (in *Input) forbids(rewritten, gain float64) string {
	if in.Loop && in.Bound {
		return "thinking is bound and the run of calls is open"
	}
	stake := rewritten * (in.Write - in.Read)
	if gain < stake*minReturn {
		return "the gain is small"
	}
	// A conversation may end with this request. What the fold costs then must
	// be little beside what the conversation has cost so far.
	share := stakeBetween * in.Read / (in.Write - in.Read)
	if in.Loop {
		share *= stakeInLoop / stakeBetween
	}
	if !in.Begun || stake+math.Max(in.Staked, -in.Spent) > share*in.Spent {
		return "too much at stake so early"
	}
	return ""
}

// nearWindow is the share of the window from which a prompt counts as near it.
const nearWindow = 0.85

// full reports whether the prompt comes so near the model's window that folding
// is better than what the client would do next: summarise and begin anew.
func (in *Input) full() bool {
	return in.Window > 0 && in.Total > nearWindow*float64(in.Window) && !(in.Loop && in.Bound)
}
