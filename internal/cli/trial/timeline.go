// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/figure"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
)

// Timeline is one conversation under one policy, request by request.
type Timeline struct {
	// Result is the result of the conversation.
	Result Result `json:"result"`
	// Steps are its requests.
	Steps []Step `json:"steps"`
	// Epochs are the moments at which history was edited.
	Epochs []EpochSpan `json:"epochs"`

	rules    pricing.Rules
	lifetime time.Duration
}

// EpochSpan is a moment at which history was edited, and its results.
type EpochSpan struct {
	// Request is the index in Steps of the request with the edits.
	Request int `json:"request"`
	// Decision is the handler's decision and expectation.
	Decision planner.Decision `json:"decision"`
	// Requests is the number of requests from this one up to the next epoch or the end.
	Requests int `json:"requests"`
	// Net is the saving of these requests against the client's own bytes, as billed. It includes
	// the savings of earlier epochs.
	Net float64 `json:"net"`
	// Earned is the saving of this epoch alone, see [Step].
	Earned float64 `json:"earned"`
}

// Explain replays one conversation and describes each request. It uses the first profile and the
// first policy of the options.
func Explain(ctx context.Context, c *recording.Conversation, o Options) (*Timeline, error) {
	profiles, err := o.defaults()
	if err != nil {
		return nil, err
	}
	defer o.scorer.release()
	rules := profiles[0].Rules()
	t := &Timeline{rules: rules, lifetime: rules.Lifetime(profiles[0].LongTTL)}
	if o.Need != nil {
		if o.need, err = o.Need(c); err != nil {
			return nil, err
		}
	}
	a, err := newArm(o.Policies[0], profiles[0], &o)
	if err != nil {
		return nil, err
	}
	defer a.store.Close()
	a.watch = func(at time.Time, s *Step) { t.add(s, at.Sub(o.Start)) }
	done := 0
	d := &drive{conversation: c, profile: profiles[0], start: o.Start, arms: []*arm{a}, progress: func() {
		if done++; o.Progress != nil {
			o.Progress(done, c.Calls)
		}
	}}
	if err := d.run(ctx); err != nil {
		return nil, fmt.Errorf("%s, profile %s: %w", c.Name, profiles[0].Name, err)
	}
	t.Result = d.results[0]
	t.sum()
	return t, nil
}

func (t *Timeline) add(s *Step, at time.Duration) {
	var before *Step
	if n := len(t.Steps); n > 0 {
		before = &t.Steps[n-1]
	}
	s.follow(before, at)
	t.Steps = append(t.Steps, *s)
}

func (t *Timeline) sum() {
	t.share()
	var open *EpochSpan
	for i := range t.Steps {
		s := &t.Steps[i]
		if s.epoch() {
			t.Epochs = append(t.Epochs, EpochSpan{Request: i, Decision: *s.Decision, Earned: s.Earned})
			open = &t.Epochs[len(t.Epochs)-1]
		}
		if open != nil {
			open.Requests++
			open.Net += s.saving()
		}
	}
}

// share distributes savings among the requests that made edits.
func (t *Timeline) share() {
	var makers []int
	removed := int64(0)
	share := func(amount float64) {
		for _, m := range makers {
			// The edits in force share a saving in proportion to the tokens that they remove.
			t.Steps[m].Earned += amount * float64(t.Steps[m].Removed) / float64(removed)
		}
	}
	for i := range t.Steps {
		s := &t.Steps[i]
		if !s.Continued {
			makers, removed = nil, 0
		}
		saving := s.saving()
		if s.Removed == 0 {
			share(saving)
			continue
		}
		// In a request with new edits the earlier ones get the cost of their tokens in the client's
		// own bytes. The new ones get the rest, which is a loss after much rewriting.
		old := float64(removed) * t.price(s)
		share(old)
		s.Earned += saving - old
		makers = append(makers, i)
		removed += s.Removed
	}
}

// price returns the cost of an old token in the client's own bytes of a request.
func (t *Timeline) price(s *Step) float64 {
	u := s.Base
	u.Uncached, u.Write5m, u.Write1h = 0, 0, 0
	if 2*u.Read >= s.Base.Prompt() {
		return Ratio(t.rules.Cost(u), float64(u.Read))
	}
	return Ratio(s.BaseCost-t.rules.Cost(u), float64(s.Base.Prompt()-u.Read))
}

// WriteJSON writes the timeline as JSON.
func (t *Timeline) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(t)
}

// WriteText writes the timeline as two tables: the requests, and the epochs.
func (t *Timeline) WriteText(w io.Writer) error {
	r := &t.Result
	fmt.Fprintf(w, "%s, %s, %s: cost %s, %d of %d edits harmed\n\n", r.Conversation, r.Profile, r.Policy,
		figure.Change(r.CostRatio()), r.Harmed, r.Edits)
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tab, "#\tat\tpause\toriginal\tsent\tnew\twritten\tread\tepoch\tgain\tremoved\tnet\tharm\t")
	for i := range t.Steps {
		s := &t.Steps[i]
		b, u := s.Base, s.Sent
		fmt.Fprintf(tab, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			i, elapsed(s.At), pause(s.Pause), thousands(b.Prompt()), thousands(u.Prompt()),
			pair(b.Uncached, u.Uncached), pair(b.Write5m+b.Write1h, u.Write5m+u.Write1h), pair(b.Read, u.Read),
			s.moment(), s.gain(), s.removed(), signed(s.Net), s.harm(), "  "+s.why())
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	return t.writeEpochs(w)
}

func (t *Timeline) writeEpochs(w io.Writer) error {
	if len(t.Epochs) == 0 {
		_, err := io.WriteString(w, "\nHistory was never edited.\n")
		return err
	}
	fmt.Fprintln(w)
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tab,
		"epoch at\tmoment\tfolded\tof\tremoved\trewritten\tfurther\tgain expected\tearned\trequests\tnet of all in them\t")
	for i := range t.Epochs {
		e := &t.Epochs[i]
		d := &e.Decision
		fmt.Fprintf(tab, "%d\t%s\t%d\t%d\t%s\t%s\t%.0f\t%s\t%s\t%d\t%s\t\n", e.Request, d.Epoch, d.Folded, d.Candidates,
			thousands(int64(d.Removed)), thousands(int64(d.Rewritten)), d.Further, signed(d.Gain), signed(e.Earned), e.Requests,
			signed(e.Net))
	}
	return tab.Flush()
}

func (s *Step) moment() string {
	if !s.epoch() {
		return "·"
	}
	return string(s.Decision.Epoch)
}

func (s *Step) gain() string {
	if !s.epoch() {
		return "·"
	}
	return signed(s.Decision.Gain)
}

func (s *Step) removed() string {
	if len(s.Folded) == 0 {
		return "·"
	}
	return thousands(s.Removed)
}

func (s *Step) harm() string {
	if s.Harmed == 0 {
		return "·"
	}
	return fmt.Sprintf("%d/%d", s.Harmed, s.Edits)
}

func (s *Step) why() string {
	var parts []string
	if s.Refused {
		parts = append(parts, "REFUSED")
	}
	for _, stage := range slices.Sorted(maps.Keys(s.Folded)) {
		parts = append(parts, fmt.Sprintf("%s %d", stage, s.Folded[stage]))
	}
	if s.Decision != nil && s.Decision.Reason != "" {
		parts = append(parts, "("+s.Decision.Reason+")")
	}
	return strings.Join(parts, ", ")
}

func signed(x float64) string { return fmt.Sprintf("%+.1fk", x/1000) }

func elapsed(seconds float64) string {
	s := int(seconds)
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}

func pause(seconds float64) string {
	switch {
	case seconds >= 2*3600:
		return fmt.Sprintf("%.1fh", seconds/3600)
	case seconds >= 120:
		return fmt.Sprintf("%.0fm", seconds/60)
	default:
		return fmt.Sprintf("%.0fs", seconds)
	}
}

// cold returns the pause after which a provider's cache is empty: the lifetime, or five minutes without one.
func (t *Timeline) cold() float64 {
	if t.lifetime > 0 {
		return t.lifetime.Seconds()
	}
	return (5 * time.Minute).Seconds()
}
