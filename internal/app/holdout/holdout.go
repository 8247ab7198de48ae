// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package holdout compares the sessions that llm_cache edits with a control group that it leaves alone.
//
// Sessions are the units: turns of one session depend on each other. Every measure is a ratio of two
// sums, such as cost and turns. Its change is the ratio of both groups' ratios. The variance of each
// logarithm is the jackknife's, which heavy tails need: a few sessions are most of the cost.
//
// An interval is about the sessions of the period, not about future ones. So each group predicts the
// ratio of all sessions, and only the prediction for the other group's sessions has an error (Royall,
// "On finite population sampling theory under certain linear regression models", 1970). It grows with
// the size of those sessions: where a large one is in the control group, the interval is wider. The one
// unknown term, the correlation of both errors, has the largest possible value.
package holdout

import "math"

// Session sums up the turns of one session in one group.
type Session struct {
	// ID is the public id of the session, User the name of its user.
	ID   string `json:"session"`
	User string `json:"user"`
	// Turns counts the client's requests, Prompt, Read and Output their tokens.
	Turns  float64 `json:"turns"`
	Prompt float64 `json:"prompt"`
	Read   float64 `json:"read"`
	Output float64 `json:"output"`
	// Units is the cost in uncached input tokens, internal requests included, and OwnUnits the simulated
	// cost of the client's own bytes. USD and OwnUSD are the same in US dollars, 0 without a price.
	Units    float64 `json:"units"`
	OwnUnits float64 `json:"own_units"`
	USD      float64 `json:"usd"`
	OwnUSD   float64 `json:"own_usd"`
	// Rereads and FailedEdits count the signs of missed text, Compactions the requests for a summary.
	Rereads     float64 `json:"rereads"`
	FailedEdits float64 `json:"failed_edits"`
	Compactions float64 `json:"compactions"`
	// FirstToken is the sum of the times to the first token, in seconds, of the Answered turns.
	FirstToken float64 `json:"first_token"`
	Answered   float64 `json:"answered"`
}

// Measure is one figure of both groups.
type Measure struct {
	// Name is the name of the figure, see the constants.
	Name string `json:"name"`
	// Edited and Control are its values in the groups.
	Edited  float64 `json:"edited"`
	Control float64 `json:"control"`
	// Change is Edited as a change of Control: -0.25 is a quarter less. Low and High bound it with a
	// confidence of 95 %. All are 0 unless Known: with fewer than 10 sessions or 5 events in a
	// group there is no interval.
	Change float64 `json:"change"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Known  bool    `json:"known"`
	// Needed is the number of further sessions of both groups, at the same share, that narrow the
	// interval to 3 points on each side.
	Needed int `json:"needed"`
}

// The measures. Cost is against the simulated cost of the client's own bytes in the same group, so
// it compares sessions of any length. Events are those of a hundred turns.
const (
	Cost          = "cost"
	CostPerTurn   = "cost_per_turn"
	CostPerOutput = "cost_per_output" // of a thousand tokens
	ReadShare     = "read_share"
	TurnsEach     = "turns" // of a session
	Rereads       = "rereads"
	FailedEdits   = "failed_edits"
	Compactions   = "compactions"
	FirstToken    = "first_token" // in seconds
)

// Comparison compares both groups.
type Comparison struct {
	// Edited and Control are the numbers of sessions.
	Edited  int `json:"edited"`
	Control int `json:"control"`
	// Priced reports that costs are in US dollars, without sessions of models without a price. Otherwise
	// they are in uncached input tokens.
	Priced bool `json:"priced"`
	// Measures are the measures, in the order of the constants.
	Measures []Measure `json:"measures"`
	// Dearer counts the edited sessions that cost over 0.5 % more than their own bytes would have, and
	// Loss is their sum. Worst is the one with the largest loss.
	Dearer int     `json:"dearer"`
	Loss   float64 `json:"loss"`
	Worst  *Loser  `json:"worst,omitempty"`
	// Answers are the measures in words.
	Answers []Answer `json:"answers"`
}

// Loser is a session that has cost more with llm_cache.
type Loser struct {
	// Session and User name the session, and Change is that of its cost.
	Session string  `json:"session"`
	User    string  `json:"user"`
	Change  float64 `json:"change"`
}

const (
	minSessions = 10
	minEvents   = 5
	// billError is by how much the simulated client's side of edited sessions is too low, as a share, give or take
	// as much: 0.4 to 0.7 % in 284 recorded conversations at three providers. No number of sessions makes it smaller.
	billError = 0.005
	// margin is the half width that Needed is about.
	margin = 0.03
	// dearer is the ratio above which a session counts as a loss.
	dearer = 1.005
)

// Compare compares edited sessions with those of the control group.
func Compare(edited, control []*Session) *Comparison {
	c := &Comparison{Edited: len(edited), Control: len(control)}
	for _, s := range edited {
		c.Priced = c.Priced || s.USD > 0
	}
	cost, own := func(s *Session) float64 { return s.Units }, func(s *Session) float64 { return s.OwnUnits }
	if c.Priced {
		cost, own = func(s *Session) float64 { return s.USD }, func(s *Session) float64 { return s.OwnUSD }
	}
	paid := func(s *Session) bool { return own(s) > 0 }
	turns := func(s *Session) float64 { return s.Turns }
	hundred := func(s *Session) float64 { return s.Turns / 100 }
	for _, m := range []struct {
		name     string
		of, by   func(*Session) float64
		relevant func(*Session) bool
		events   bool
	}{
		{Cost, cost, own, paid, false},
		{CostPerTurn, cost, turns, paid, false},
		{CostPerOutput, cost, func(s *Session) float64 { return s.Output / 1000 }, paid, false},
		{
			ReadShare, func(s *Session) float64 { return s.Read }, func(s *Session) float64 { return s.Prompt }, nil,
			false,
		},
		{TurnsEach, turns, func(*Session) float64 { return 1 }, nil, false},
		{Rereads, func(s *Session) float64 { return s.Rereads }, hundred, nil, true},
		{FailedEdits, func(s *Session) float64 { return s.FailedEdits }, hundred, nil, true},
		{Compactions, func(s *Session) float64 { return s.Compactions }, hundred, nil, true},
		{
			FirstToken, func(s *Session) float64 { return s.FirstToken },
			func(s *Session) float64 { return s.Answered }, nil, false,
		},
	} {
		least, bias := 0.0, 0.0
		if m.events {
			least = minEvents
		}
		if m.name == Cost {
			bias = billError
		}
		e, k := sample(edited, m.relevant, m.of, m.by), sample(control, m.relevant, m.of, m.by)
		c.Measures = append(c.Measures, measure(m.name, e, k, least, bias))
	}
	worst := 0.0
	for _, s := range edited {
		loss := cost(s) - own(s)
		if !paid(s) || cost(s) <= dearer*own(s) {
			continue
		}
		c.Dearer++
		c.Loss += loss
		if loss > worst {
			worst, c.Worst = loss, &Loser{s.ID, s.User, cost(s)/own(s) - 1}
		}
	}
	c.answer()
	return c
}

// Of returns the measure with a name.
func (c *Comparison) Of(name string) *Measure {
	for i := range c.Measures {
		if c.Measures[i].Name == name {
			return &c.Measures[i]
		}
	}
	return new(Measure)
}

// group has the pairs of a measure's numerators and denominators in one group.
type group struct {
	pairs   [][2]float64
	of, by  float64 // their sums
	squares float64 // the sum of the squared denominators
}

func sample(all []*Session, relevant func(*Session) bool, of, by func(*Session) float64) (g group) {
	for _, s := range all {
		if relevant == nil || relevant(s) {
			g.pairs = append(g.pairs, [2]float64{of(s), by(s)})
			g.of, g.by, g.squares = g.of+of(s), g.by+by(s), g.squares+by(s)*by(s)
		}
	}
	return g
}

func (g *group) ratio() float64 {
	if g.by == 0 {
		return 0
	}
	return g.of / g.by
}

// variance returns the jackknife's variance of the ratio's logarithm, and its degrees of freedom: of n
// normal deviations these are n, and heavy tails leave fewer, by the kurtosis.
func (g *group) variance() (variance, freedom float64) {
	n, mean, squares, fourths := float64(len(g.pairs)), 0.0, 0.0, 0.0
	without := func(p [2]float64) float64 { return math.Log((g.of - p[0]) / (g.by - p[1])) }
	for _, p := range g.pairs {
		mean += without(p) / n
	}
	for _, p := range g.pairs {
		d := without(p) - mean
		squares, fourths = squares+d*d, fourths+d*d*d*d
	}
	if squares == 0 {
		return 0, n
	}
	kurtosis := n * fourths / (squares * squares)
	return (n - 1) / n * squares, 2 * n / max(kurtosis-1, 2)
}

// missing returns the variance of the ratio as a prediction for the sessions of both groups, where
// variance is that for further sessions. The deviation of a session from the ratio is taken to be
// proportional to its denominator.
func (g *group) missing(variance float64, other *group) float64 {
	own, others := g.by/(g.by+other.by), other.by/(g.by+other.by)
	return variance * (others*others + own*own*other.squares/g.squares)
}

// measure compares a ratio in both groups. bias is the error of the edited group's denominators, as a share,
// give or take as much.
func measure(name string, edited, control group, least, bias float64) Measure {
	m := Measure{Name: name, Edited: edited.ratio(), Control: control.ratio()}
	if len(edited.pairs) < minSessions || len(control.pairs) < minSessions || edited.of <= least || control.of <= least {
		return m
	}
	ve, fe := edited.variance()
	vc, fc := control.variance()
	ve, vc = edited.missing(ve, &control), control.missing(vc, &edited)
	// Both errors go together at worst, so that the standard errors add up.
	half := math.Hypot(quantile(ve, vc, fe, fc)*(math.Sqrt(ve)+math.Sqrt(vc)), bias)
	if math.IsNaN(half) || math.IsInf(half, 0) { // all of a sum is one session's
		return m
	}
	change := m.Edited / m.Control
	m.Known, m.Change = true, change-1
	m.Low, m.High = change*math.Exp(-bias-half)-1, change*math.Exp(-bias+half)-1
	if wide := (m.High - m.Low) / 2 / margin; wide > 1 {
		m.Needed = int(math.Ceil(float64(len(edited.pairs)+len(control.pairs)) * (wide*wide - 1)))
	}
	return m
}

// quantile is that of Student's distribution for 95 %, with Welch's degrees of freedom, up to the first order of
// their inverse.
func quantile(a, b, freeA, freeB float64) float64 {
	const z = 1.959964
	if a+b == 0 {
		return z
	}
	free := (a + b) * (a + b) / (a*a/freeA + b*b/freeB)
	return z * (1 + (z*z+1)/(4*free))
}
