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

package estimate

import (
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/transcript"
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
	// Claude Code and Codex 19, Gemini CLI 18, pi 12; opencode has a test of its own.
	if e.Total.Conversations != 4 || e.Total.Requests != 68 || e.Total.Drawn != 4 || e.Total.Simulated.Calls != 68 || e.Failed+e.Unreadable+e.UnknownLines != 0 {
		t.Errorf("%+v", e)
	}
	if len(e.Projects) != 4 || e.Lengths[0].Conversations != 4 || e.Total.Paid <= 0 || e.Median <= 0 {
		t.Errorf("%+v", e)
	}
	saved := 0.0
	for i, g := range e.Projects {
		saved += g.Saved
		if g.Conversations != 1 || g.Project != "/home/dev/repository" || g.Tokens == 0 || i > 0 && g.Paid > e.Projects[i-1].Paid {
			t.Errorf("%+v", g)
		}
		if v := g.Simulated.Violations(); len(v) > 0 {
			t.Errorf("%s: %v", g.Agent, v)
		}
	}
	if saved != e.Total.Saved {
		t.Errorf("saved %v, the projects %v", e.Total.Saved, saved)
	}

	// Fewer are drawn, the same ones each time, and the rest is in proportion.
	few, err := Options{Requests: 31}.Run(t.Context(), sources)
	if err != nil {
		t.Fatal(err)
	}
	if few.Total.Drawn == 0 || few.Total.Simulated.Calls > 31 || few.Total.Requests != 68 || few.Total.Paid != e.Total.Paid {
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
