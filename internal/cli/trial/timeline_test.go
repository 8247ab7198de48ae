// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
)

func TestParseDecision(t *testing.T) {
	for header, want := range map[string]*planner.Decision{
		"":                  nil,
		"none":              nil,
		"candidates=3":      nil,
		"epoch=":            nil,
		"epoch=none":        {Epoch: planner.NoEpoch},
		`epoch="cold"`:      {Epoch: planner.Cold},
		"epoch=new; new=1":  {Epoch: "new"},
		"epoch=cold;gain=?": {Epoch: planner.Cold},
		`epoch=cold; candidates=12; folded=9; removed=34120; rewritten=18000; further=45; gain=152310`: {
			Epoch: planner.Cold, Candidates: 12, Folded: 9, Removed: 34120, Rewritten: 18000, Further: 45, Gain: 152310,
		},
		`epoch=none; candidates=2; gain=-12.5; reason="too little; 1 \"small\" one=2"; folded=0; removed=7`: {
			Epoch: planner.NoEpoch, Candidates: 2, Gain: -12.5, Reason: `too little; 1 "small" one=2`, Removed: 7,
		},
		`epoch=none; reason="cut`: {Epoch: planner.NoEpoch, Reason: `"cut`},
	} {
		d, ok := parseDecision(header)
		if ok != (want != nil) {
			t.Errorf("%q: %t", header, ok)
		}
		if ok && d != *want {
			t.Errorf("%q: %+v, want %+v", header, d, *want)
		}
	}
}

func FuzzParseDecision(f *testing.F) {
	f.Add(`epoch=cold; candidates=12; gain=1e3; reason="a;b"`)
	f.Add(`reason="\`)
	f.Fuzz(func(t *testing.T, s string) {
		if d, ok := parseDecision(s); ok && d.Epoch == "" {
			t.Error("no epoch")
		}
	})
}

// sampleTimeline returns a timeline of five requests. The second folds 400 tokens, a third request folds 100
// and has 300 to write again, and a compaction ends it.
func sampleTimeline() *Timeline {
	rules := pricing.Rules{Write: 1.25, Read: 0.1, TTL: 5 * time.Minute}
	tl := &Timeline{rules: rules, lifetime: rules.TTL}
	usage := func(written, read int64) wire.Usage { return wire.Usage{Write5m: written, Read: read} }
	at := 0 * time.Second
	for _, s := range []Step{
		{Base: usage(1000, 0), Sent: usage(1000, 0), Prompt: true},
		{
			Base: usage(1100, 0), Sent: usage(700, 0), Fired: map[string]int{"prune": 4}, Continued: true,
			Decision: &planner.Decision{Epoch: planner.Cold, Candidates: 5, Folded: 4, Removed: 390, Further: 2, Gain: 500},
		},
		{
			Base: usage(100, 1100), Sent: usage(400, 300), Fired: map[string]int{"prune": 5, "strip_thinking": 1},
			Continued: true, Edits: 2, Harmed: 1,
			Decision: &planner.Decision{
				Epoch: planner.TaskBoundary, Candidates: 1, Folded: 1, Removed: 110, Rewritten: 280,
				Further: 3, Gain: 20,
			},
		},
		{
			Base: usage(100, 1200), Sent: usage(100, 700), Fired: map[string]int{"prune": 5, "strip_thinking": 1},
			Continued: true,
			Decision:  &planner.Decision{Epoch: planner.NoEpoch, Reason: "nothing to fold"},
		},
		{Base: usage(200, 500), Sent: usage(200, 500), Fired: map[string]int{"prune": 1}, Refused: true},
	} {
		s.BaseCost, s.Cost = rules.Cost(s.Base), rules.Cost(s.Sent)
		tl.Result.BaseMaxPrompt = max(tl.Result.BaseMaxPrompt, s.Base.Prompt())
		tl.add(&s, at)
		at += 6 * time.Minute
	}
	tl.Result.Conversation, tl.Result.Profile, tl.Result.Policy = "a <b> & c", "anthropic-5m", pipeline.CostAware
	tl.sum()
	return tl
}

func TestTimeline(t *testing.T) {
	tl := sampleTimeline()
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-6 {
			t.Errorf("%s: %.2f, want %.2f", what, got, want)
		}
	}
	for i, want := range []struct {
		folded  map[string]int
		removed int64
		net     float64
	}{
		{nil, 0, 0},
		{map[string]int{"prune": 4}, 400, 500},
		{map[string]int{"prune": 1, "strip_thinking": 1}, 100, 500 + 235 - 530},
		{nil, 0, 205 + 50},
		{map[string]int{"prune": 1}, 0, 255},
	} {
		s := &tl.Steps[i]
		if !reflect.DeepEqual(s.Folded, want.folded) || s.Removed != want.removed {
			t.Errorf("request %d: folded %v, removed %d, want %v", i, s.Folded, s.Removed, want)
		}
		near("net", s.Net, want.net)
	}
	if s := tl.Steps[2]; s.At != 720 || s.Pause != 360 {
		t.Errorf("at %v after %v", s.At, s.Pause)
	}
	if len(tl.Epochs) != 2 || tl.Epochs[0].Request != 1 || tl.Epochs[1].Request != 2 || tl.Epochs[0].Requests != 1 ||
		tl.Epochs[1].Requests != 3 {
		t.Fatalf("%+v", tl.Epochs)
	}
	near("net of the first", tl.Epochs[0].Net, 500)
	near("net of the second", tl.Epochs[1].Net, -245)
	// In request 2 the first epoch earns the read cost of its 400 tokens, in request 3 four fifths
	// of the saving.
	near("earned by the first", tl.Epochs[0].Earned, 500+40+40)
	near("earned by the second", tl.Epochs[1].Earned, -295-40+10+0)
	near("earned by all", tl.Epochs[0].Earned+tl.Epochs[1].Earned, tl.Steps[4].Net)
}

func TestTimelineText(t *testing.T) {
	var text bytes.Buffer
	if err := sampleTimeline().WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"0:12:00", "1.1k→0.7k", "boundary", "1/2", "prune 1, strip_thinking 1", "(nothing to fold)", "REFUSED", "earned",
		"+0.6k",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, text.String())
		}
	}
	text.Reset()
	if err := (&Timeline{}).WriteText(&text); err != nil || !strings.Contains(text.String(), "never edited") {
		t.Errorf("%v: %s", err, text.String())
	}
}

func TestTimelineDrawing(t *testing.T) {
	for _, tl := range []*Timeline{sampleTimeline(), {}, {Steps: make([]Step, 1)}} {
		var drawing bytes.Buffer
		if err := tl.Draw(&drawing); err != nil {
			t.Fatal(err)
		}
		elements, texts := testkit.WellFormedSVG(t, drawing.Bytes())
		if len(tl.Steps) < 5 {
			continue
		}
		if elements["path"] < 7 || elements["circle"] != 2 {
			t.Errorf("elements %v", elements)
		}
		for _, want := range []string{
			"a <b> & c under anthropic-5m, cost_aware", "1k", "cold: −0.4k, earned +0.6k", "6m",
			"request",
		} {
			if !strings.Contains(texts, want) {
				t.Errorf("%q is missing in %s", want, texts)
			}
		}
	}
}

// A timeline adds up to the result, under every profile.
func TestExplain(t *testing.T) {
	conversations, err := recording.Find("testdata/traces/gardener-11111111-p1.jsonl",
		"testdata/traces/gardener-11111111-p2.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for _, profile := range pricing.Profiles() {
		o := Options{Profiles: []string{profile}, Policies: []pipeline.Policy{pipeline.Eager}}
		tl, err := Explain(t.Context(), conversations[0], o)
		if err != nil {
			t.Fatal(err)
		}
		var sent wire.Usage
		folded, earned := 0, 0.0
		for i := range tl.Steps {
			s := &tl.Steps[i]
			sent = sent.Add(s.Sent)
			earned += s.Earned
			for _, n := range s.Folded {
				folded += n
			}
			if s.Fired[markers] != 0 {
				t.Error("markers are no edits")
			}
		}
		r := &tl.Result
		last := &tl.Steps[len(tl.Steps)-1]
		if len(tl.Steps) != 15 || sent != r.Sent || folded == 0 || math.Abs(last.Net-(r.BaseCost-r.Cost)) > 1e-6 {
			t.Errorf("%s: %d steps, %+v of %+v, %d folded, net %.1f", profile, len(tl.Steps), sent, r.Sent, folded, last.Net)
		}
		if earned == 0 {
			t.Errorf("%s: nothing was earned or lost", profile)
		}
		if !tl.Steps[0].Prompt || tl.Steps[1].Prompt || tl.Steps[0].Continued || !tl.Steps[1].Continued {
			t.Errorf("%s: %+v", profile, tl.Steps[:2])
		}
	}
}

// Explain replays with the need model of its options, as a replay does.
func TestExplainNeed(t *testing.T) {
	conversations, err := recording.Find("testdata/traces/gardener-11111111-p1.jsonl",
		"testdata/traces/gardener-11111111-p2.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	o := Options{
		Profiles: []string{"anthropic-5m"}, Policies: []pipeline.Policy{pipeline.CostAware},
		Need: func(*recording.Conversation) (*pipeline.NeedModel, error) {
			asked++
			return nil, errOther
		},
	}
	if _, err := Explain(t.Context(), conversations[0], o); !errors.Is(err, errOther) || asked != 1 {
		t.Errorf("a failing need model: got %v after %d calls, want %v", err, asked, errOther)
	}
}
