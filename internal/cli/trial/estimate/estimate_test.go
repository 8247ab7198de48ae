// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package estimate

import (
	"bytes"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/transcript"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
)

func TestEstimate(t *testing.T) {
	sources, err := transcript.Scan("../../transcript/testdata")
	if err != nil {
		t.Fatal(err)
	}
	e, err := Options{}.Run(t.Context(), sources)
	if err != nil {
		t.Fatal(err)
	}
	// Claude Code and Codex 19, Gemini CLI 18, pi 12; opencode has a separate test.
	if e.Total.Conversations != 4 || e.Total.Requests != 68 || e.Total.Drawn != 4 || e.Total.Simulated.Calls != 68 ||
		e.Failed+e.Unreadable+e.UnknownLines != 0 {
		t.Errorf("%+v", e)
	}
	if len(e.Projects) != 4 || e.Lengths[0].Conversations != 4 || e.Total.Paid <= 0 || e.Median <= 0 {
		t.Errorf("%+v", e)
	}
	saved := 0.0
	for i, g := range e.Projects {
		saved += g.Saved
		if g.Conversations != 1 || g.Project != "/home/dev/repository" || g.Tokens == 0 || i > 0 &&
			g.Paid > e.Projects[i-1].Paid {
			t.Errorf("%+v", g)
		}
		if v := g.Simulated.Violations(); len(v) > 0 {
			t.Errorf("%s: %v", g.Agent, v)
		}
	}
	if saved != e.Total.Saved {
		t.Errorf("saved %v, the projects %v", e.Total.Saved, saved)
	}

	// A smaller draw is deterministic, and the rest is in proportion.
	few, err := Options{Requests: 31}.Run(t.Context(), sources)
	if err != nil {
		t.Fatal(err)
	}
	if few.Total.Drawn == 0 || few.Total.Simulated.Calls > 31 || few.Total.Requests != 68 ||
		few.Total.Paid != e.Total.Paid {
		t.Errorf("%+v", few.Total)
	}
	again, err := Options{Requests: 31}.Run(t.Context(), sources)
	if err != nil {
		t.Fatal(err)
	}
	if again.Total.Saved != few.Total.Saved {
		t.Errorf("saved %v, then %v", few.Total.Saved, again.Total.Saved)
	}
}

// A conversation without times does not affect the time span.
func TestUnknownTimes(t *testing.T) {
	folder := t.TempDir()
	for name, at := range map[string]string{"a": `"timestamp":"2026-11-22T17:28:33Z",`, "b": ""} {
		text := `{"parentUuid":null,` + at + `"sessionId":"` + name +
			`","type":"user","message":{"role":"user","content":"Hi"},"uuid":"1"}
{"parentUuid":"1",` + at + `"sessionId":"` + name + `","type":"assistant","message":{"id":"m","role":"assistant","content":[{"type":"text","text":"Hello."}]},"uuid":"2"}`
		if err := os.WriteFile(filepath.Join(folder, name+".jsonl"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ paths, want string }{
		{"a b", "2 conversations with 2 requests, begun from 2026-11-22 to 2026-11-22, 0 MB\n"},
		{"b", "1 conversations with 1 requests, 0 MB\n"},
	} {
		var paths []string
		for name := range strings.FieldsSeq(c.paths) {
			paths = append(paths, filepath.Join(folder, name+".jsonl"))
		}
		sources, err := transcript.Scan(paths...)
		if err != nil {
			t.Fatal(err)
		}
		e, err := Options{Options: trial.Options{Workers: 1}}.Run(t.Context(), sources)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := e.WriteText(&b); err != nil || !strings.HasPrefix(b.String(), c.want) {
			t.Errorf("%s: %.100q, %v", c.paths, b.String(), err)
		}
	}
}

// TestUnpriced: a model without a price is named, and a caller's table may have its price.
func TestUnpriced(t *testing.T) {
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS("../../transcript/testdata/codex")); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, bytes.ReplaceAll(text, []byte(`"gpt-6.1-sol"`), []byte(`"mystery-9"`)), 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	sources, err := transcript.Scan(folder)
	if err != nil {
		t.Fatal(err)
	}
	e, err := Options{}.Run(t.Context(), sources)
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Unpriced) != 1 || e.Unpriced[0] != (Unpriced{"mystery-9", e.Total.Tokens}) || e.Total.Tokens == 0 ||
		e.Total.Paid != 0 {
		t.Errorf("unpriced: %+v, of %+v", e.Unpriced, e.Total)
	}
	if text := e.notes(); len(text) != 1 || !strings.HasPrefix(text[0], "No price is known of mystery-9 (") {
		t.Errorf("notes: %q", text)
	}

	custom, err := pricing.BuiltIn().With("mine.json",
		[]byte(`{"vendors": {"other": {"families": {"mystery": {"mystery-9": {"prices": [{"input": 0.5, "output": 2, `+
			`"read": 0.05}]}}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	priced, err := Options{Options: trial.Options{Prices: custom}}.Run(t.Context(), sources)
	if err != nil {
		t.Fatal(err)
	}
	if len(priced.Unpriced) != 0 || priced.Total.Paid <= 0 || len(priced.notes()) != 0 {
		t.Errorf("with a price: %+v", priced)
	}
	// The simulation uses these rules, with cache reads at a tenth. Without a price the model
	// counts as one of a local server, where only processing counts.
	for _, s := range []*trial.Result{&e.Total.Simulated, &priced.Total.Simulated} {
		reads := 0.0
		if s == &priced.Total.Simulated {
			reads = 0.1
		}
		if want := float64(s.Base.Uncached) + reads*float64(s.Base.Read); s.Base.Read == 0 ||
			math.Abs(s.BaseCost-want) > 1e-6*want {
			t.Errorf("%+v: %v expected", s, want)
		}
	}
}

// TestInterval: the interval holds the cost, is the same each time, narrows with the number of conversations, and
// is not given for a few.
func TestInterval(t *testing.T) {
	talks := func(n int) (all []*talk) {
		for i := range n {
			base := float64(1 + i%7)
			all = append(all, &talk{result: &trial.Result{BaseCost: base, Cost: base * (0.6 + 0.05*float64(i%5))}}, &talk{})
		}
		return all
	}
	if got := bootstrap(talks(minBootstrap - 1)); got != nil {
		t.Errorf("got %v of %d conversations, want none", got, minBootstrap-1)
	}
	few, many := bootstrap(talks(35)), bootstrap(talks(350))
	if again := bootstrap(talks(35)); *again != *few {
		t.Errorf("got %v, then %v", few, again)
	}
	const want = 0.7 // of as many conversations of each length and cost
	if few.Low >= want || few.High <= want || many.Low >= want || many.High <= want ||
		many.High-many.Low >= (few.High-few.Low)/2 {
		t.Errorf("got %v and %v, want both around %v, and the second a third as wide", few, many, want)
	}
	e := Estimate{Interval: &Interval{0.72, 0.78}, Total: Group{Drawn: 1, Simulated: trial.Result{Cost: 75, BaseCost: 100}}}
	var text bytes.Buffer
	if err := e.WriteText(&text); err != nil || !strings.Contains(text.String(), "Cost in all: -25.0 % (95 %: -28.0 % to -22.0 %)") {
		t.Errorf("got %v\n%s", err, text.String())
	}
}
