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

package replay

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// reader writes a conversation of an agent that runs a command in each of 70
// requests, and reads what it prints, for half a second each. A person speaks before every
// tenth, after so many seconds.
func reader(t *testing.T, pause float64) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(`{"agent":"pi","session":"s","prompt_fit":{"overhead_tokens":3000}}` + "\n")
	at := 0.0
	for i := range 70 {
		said := fmt.Sprintf(`{"role":"user","content":[{"type":"text","text":"Task %d."}]}`, i)
		switch {
		case i == 0:
		case i%10 == 0:
			at += pause
			said = `{"role":"assistant","content":[{"type":"text","text":"It is done."}]},` + said
		default:
			at += 0.5
			lines := ""
			for n := range 150 {
				lines += fmt.Sprintf(`line %d of step %d, with some words in it\n`, n, i)
			}
			said = fmt.Sprintf(`{"role":"assistant","content":[{"type":"text","text":"Let me look at step %d."},{"type":"tool_use","id":"t%d","name":"bash","input":{"command":"make step%d"}}]},`, i, i, i) +
				fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t%d","content":"%s"}]}`, i, lines)
		}
		fmt.Fprintf(&b, `{"t":%g,"t_end":%g,"messages":[%s]}`+"\n", at, at+2, said)
		at += 2
	}
	file := filepath.Join(t.TempDir(), "pi-s-p1.jsonl")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A box folds in the pauses that are long enough for it to read what is left, and
// then sends less without having people wait for more.
func TestBackground(t *testing.T) {
	run := func(file string, speed float64) Result {
		t.Helper()
		return replayed(t, Options{Profiles: []string{"kv"}, Policies: []pipeline.Policy{pipeline.CostAware}, Background: speed}, file).Runs[0].Total
	}
	long, short := reader(t, 300), reader(t, 4)
	without, with := run(long, 0), run(long, 500)
	b := with.Background
	if without.Background != (Background{}) || b.Held == 0 || b.Processed == 0 || b.Held+b.Broken > b.Planned {
		t.Fatalf("without: %+v, with: %+v", without.Background, b)
	}
	if with.TokenRatio() > 0.8*without.TokenRatio() {
		t.Errorf("prompt tokens are %.3f of the client's, without folding in pauses %.3f", with.TokenRatio(), without.TokenRatio())
	}
	if fresh(with.Sent) > fresh(with.Base) || fresh(with.Sent) > fresh(without.Sent)*101/100 {
		t.Errorf("people waited for %d tokens; for the client's own bytes it is %d, without folding in pauses %d", fresh(with.Sent), fresh(with.Base), fresh(without.Sent))
	}
	if with.Rejected+with.FailedOpen+with.Resent > 0 {
		t.Errorf("%+v", with)
	}

	// Three seconds are too short for a slow box, and nothing changes.
	cut, plain := run(short, 100), run(short, 0)
	if cut.Background.Broken == 0 || cut.Background.Held > 0 || cut.Background.Wasted == 0 {
		t.Errorf("in short pauses: %+v", cut.Background)
	}
	if cut.Sent != plain.Sent {
		t.Errorf("folds that were broken off change what is sent: %+v, not %+v", cut.Sent, plain.Sent)
	}
}

// The text tells what folding in pauses came to, for long conversations apart.
func TestBackgroundText(t *testing.T) {
	out, _, err := command("replay", "--profile", "kv", "--background", reader(t, 300))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`(?m)^while nobody waited: [1-9]\d* folds planned, [1-9]\d* held, \d+ broken off; [\d.]+k read, [\d.]+k in vain$`,
		`(?m)^over 60 requests: 70 requests, prompt tokens -\d+\.\d%, read in front of people [\d.k→]+ \([-+]\d+\.\d%\), harm 0\.00% of 0$`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no line %s in\n%s", want, out)
		}
	}
	if out, _, err := command("replay", "--profile", "kv", reader(t, 300)); err != nil || strings.Contains(out, "while nobody waited") {
		t.Errorf("%v: without --background\n%s", err, out)
	}
}
