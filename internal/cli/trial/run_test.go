// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

func replayed(t *testing.T, o Options, paths ...string) *Report {
	t.Helper()
	conversations, err := recording.Find(paths...)
	if err != nil {
		t.Fatal(err)
	}
	report, err := Run(t.Context(), conversations, o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// Under every profile and policy no conversation is refused, and the policies off and observe
// change nothing.
func TestRun(t *testing.T) {
	report := replayed(t, Options{Profiles: pricing.Profiles(), Policies: Policies}, "testdata/traces")
	if v := report.Violations(); len(v) > 0 {
		t.Errorf("%s", strings.Join(v, "\n"))
	}
	if want := len(pricing.Profiles()) * len(Policies); len(report.Runs) != want {
		t.Fatalf("%d runs, want %d", len(report.Runs), want)
	}
	for i := range report.Runs {
		c := &report.Runs[i].Total
		if c.Calls != 18 || c.Edits != 2 || c.BaseRejected != 0 || c.MaxPrompt == 0 {
			t.Errorf("%s, %s: %+v", c.Profile, c.Policy, c)
		}
		untouched := c.Policy == pipeline.Off || c.Policy == pipeline.Observe
		if untouched && (c.Cost != c.BaseCost || c.Sent != c.Base || c.Harmed != 0 || c.BaseMaxPrompt != c.MaxPrompt) {
			t.Errorf("%s, %s: it cost %v instead of %v, %+v instead of %+v", c.Profile, c.Policy, c.Cost, c.BaseCost,
				c.Sent, c.Base)
		}
		if c.Policy == pipeline.Eager && c.Changed == 0 {
			t.Errorf("%s, %s: nothing was changed", c.Profile, c.Policy)
		}
		if c.Cost <= 0 || c.Base.Prompt() <= 0 {
			t.Errorf("%s, %s: nothing was billed", c.Profile, c.Policy)
		}
	}
}

// The gardener edits a line read long ago and a line just read. If old results are compacted, the
// first edit lacks its text.
func TestHarmOfCompaction(t *testing.T) {
	o := Options{
		Policies: []pipeline.Policy{pipeline.Eager, pipeline.Off},
		Handler:  []byte(`{"admission":{"mode":"off"},"compact_tool_results":{"mode":"on"},"prune":{"mode":"off"}}`),
	}
	report := replayed(t, o, "testdata/traces")
	if c := report.Runs[0].Total; c.Edits != 2 || c.Harmed != 1 || c.Harm() != 0.5 {
		t.Errorf("eager: %d of %d edits", c.Harmed, c.Edits)
	}
	if c := report.Runs[0].Total; c.Fired["compact_tool_results"] == 0 {
		t.Errorf("stages %v", c.Fired)
	}
	if c := report.Runs[1].Total; c.Edits != 2 || c.Harmed != 0 {
		t.Errorf("off: %d of %d edits", c.Harmed, c.Edits)
	}
}

// The pause of six minutes is longer than one lifetime and shorter than the other.
func TestVirtualClock(t *testing.T) {
	o := Options{Profiles: []string{"anthropic-5m", "anthropic-1h"}, Policies: []pipeline.Policy{pipeline.Off}}
	report := replayed(t, o, "testdata/traces/gardener-11111111-p1.jsonl")
	short, long := report.Runs[0].Total.Base, report.Runs[1].Total.Base
	if short.Write1h != 0 || long.Write5m != 0 || short.Write5m <= long.Write1h {
		t.Errorf("5 minutes: %+v, 1 hour: %+v", short, long)
	}
	if long.Write1h != report.Runs[1].Total.BaseMaxPrompt {
		t.Errorf("in an hour nothing is written twice: %+v", long)
	}
}

func TestReportIsReproducible(t *testing.T) {
	var texts [2]bytes.Buffer
	for i := range texts {
		report := replayed(t, Options{Profiles: []string{"opus-5.5", "kv"}, Policies: Policies, Workers: 1 + i},
			"testdata/traces")
		if err := report.WriteJSON(&texts[i]); err != nil {
			t.Fatal(err)
		}
	}
	if texts[0].String() != texts[1].String() {
		t.Error("two replays differ")
	}
}

func TestViolations(t *testing.T) {
	for _, test := range []struct {
		result Result
		want   string
	}{
		{Result{Policy: pipeline.Off}, ""},
		{Result{Policy: pipeline.Eager, Changed: 5, Resent: 1}, ""},
		{Result{Policy: pipeline.Off, Changed: 1}, "changed"},
		{Result{Policy: pipeline.Observe, Changed: 1, Rejected: 1}, "rejected changed"},
		{Result{Policy: pipeline.CostAware, FailedOpen: 1}, "failed open"},
	} {
		if got := strings.Join(test.result.Violations(), " "); got != test.want {
			t.Errorf("%+v: %q, want %q", test.result, got, test.want)
		}
	}
}

func TestBadOptions(t *testing.T) {
	conversations, err := recording.Find("testdata/traces/ferry-22222222-p1.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{
		"profile": {Profiles: []string{"none"}},
		"policy":  {Policies: []pipeline.Policy{"none"}},
		"handler": {Handler: []byte(`{"prune":5}`)},
		"range":   {Handler: []byte(`{"prune":{"after":0}}`)},
	} {
		if _, err := Run(t.Context(), conversations, o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A request that is refused in the client's own bytes, too, does not count. A refusal of our
// request alone is our fault.
func TestRefusedAnyway(t *testing.T) {
	text := `{"type":"text","text":"Hello."}`
	trace := `{"agent":"pi","session":"s"}
{"messages":[{"role":"user","content":[` + text + `]}]}
{"messages":[{"role":"assistant","content":[` + text + `,{"type":"thinking","thinking":"Cut off."}]},{"role":"user","content":[` + text + `]}]}
`
	file := filepath.Join(t.TempDir(), "pi-s-p1.jsonl")
	if err := os.WriteFile(file, []byte(trace), 0o600); err != nil {
		t.Fatal(err)
	}
	report := replayed(t, Options{}, file)
	if c := report.Runs[0].Total; c.BaseRejected != 1 || c.Rejected != 0 || len(report.Violations()) > 0 {
		t.Errorf("%+v: %v", c, report.Violations())
	}
	a := arm{result: Result{}, policy: pipeline.CostAware, refused: &pricing.APIError{}}
	if a.note(&request{}, &sink{header: http.Header{}}, false); a.result.Rejected != 1 || len(a.result.Violations()) == 0 {
		t.Errorf("refused for our edits: %+v", a.result)
	}
	for _, refused := range []bool{true, false} {
		a := arm{policy: pipeline.CostAware, usage: wire.Usage{Uncached: 1000}}
		a.note(&request{refused: refused}, &sink{header: http.Header{}, status: http.StatusOK}, false)
		if r := &a.result; (r.Cost == 0) != refused || (r.Sent.Prompt() == 0) != refused {
			t.Errorf("refused %t in the client's own bytes, it cost %.0f for %d tokens", refused, r.Cost, r.Sent.Prompt())
		}
	}
	if n := (&Step{Cost: 1000}).saving(); n != 0 {
		t.Errorf("refused in the client's own bytes, it saved %.0f", n)
	}
}
