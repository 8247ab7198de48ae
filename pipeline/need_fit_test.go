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

package pipeline

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/cachemodel"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/history"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/need"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/reference"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/stub"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

var (
	fit  = flag.Bool("fit", false, "fit the need model on the recorded conversations and print its coefficients")
	fold = flag.Int("fold", 0, "with -fit: leave the conversations of this fold of four out, as caddy llm-cache replay --folds 4 numbers them")
)

// sample is one block at one moment: what was known, and what came of it.
type sample struct {
	x      need.Features
	needed float64
	loop   bool
	bytes  int
}

// used are the terms of each group's model: of those above, the ones that made
// a cross-validated fit better.
var used = [need.Groups][]int{
	need.GroupResults: {need.TermOne, need.TermAge2, need.TermSize, need.TermSearch, need.TermEdited},
	need.GroupReads:   {need.TermOne, need.TermAge2, need.TermUnused, need.TermSize, need.TermEdited, need.TermWhole, need.TermPart, need.TermHot, need.TermHotIdle, need.TermEditAge, need.TermRecent, need.TermRereadIdle, need.TermTestIdle},
	need.GroupInputs:  {need.TermOne, need.TermIdle, need.TermIdle2, need.TermSize, need.TermWhole, need.TermShell, need.TermOther, need.TermEditAge},
}

// only leaves of the terms those of a group's model.
func only(x *need.Features, g need.Group) (out need.Features) {
	for _, j := range used[g] {
		out[j] = x[j]
	}
	return out
}

// weight makes up for prompts being rare beside tool results: both moments
// count about alike.
func (s *sample) weight() float64 {
	if s.loop {
		return 1
	}
	return 20
}

// recorded is one conversation, call by call.
type recorded struct {
	file  string
	fold  int
	calls [][]json.RawMessage
}

// folds is the number of parts that the conversations are split into.
const folds = 4

// foldOf numbers the folds as package replay does.
func foldOf(session string) int {
	sum := sha256.Sum256([]byte(session))
	return int(binary.BigEndian.Uint64(sum[:8])%folds) + 1
}

func readRecorded(t *testing.T) []recorded {
	t.Helper()
	folder := os.Getenv("LLM_CACHE_TRACES")
	if folder == "" {
		folder = "../../shared/traces"
	}
	files, _ := filepath.Glob(filepath.Join(folder, "*.jsonl.gz"))
	if len(files) == 0 {
		t.Skip("no recorded conversations beside the module")
	}
	out := make([]recorded, 0, len(files))
	for _, file := range files {
		r, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(r)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(z)
		lines.Buffer(nil, 64<<20)
		lines.Scan() // the header
		c := recorded{file: filepath.Base(file), fold: foldOf(gjson.GetBytes(lines.Bytes(), "session").Str)}
		for lines.Scan() {
			var entry struct {
				Messages []json.RawMessage `json:"messages"`
			}
			if err := json.Unmarshal(lines.Bytes(), &entry); err != nil {
				t.Fatal(err)
			}
			c.calls = append(c.calls, entry.Messages)
		}
		r.Close()
		out = append(out, c)
	}
	return out
}

// quoted returns the lines that the edits in an answer quote.
func quoted(answer json.RawMessage) map[string]bool {
	out := map[string]bool{}
	var visit func(v gjson.Result)
	visit = func(v gjson.Result) {
		v.ForEach(func(k, x gjson.Result) bool {
			switch k.Str {
			case "old_string", "oldText", "old_str", "old":
				for line := range strings.Lines(x.Str) {
					if q, ok := reference.Quotable(line); ok {
						out[q] = true
					}
				}
			default:
				if x.IsArray() || x.IsObject() {
					visit(x)
				}
			}
			return true
		})
	}
	gjson.GetBytes(answer, "content").ForEach(func(_, b gjson.Result) bool {
		if b.Get("type").Str == "tool_use" {
			visit(b.Get("input"))
		}
		return true
	})
	return out
}

// samples plays a conversation and returns what was known of each block at
// each moment, and whether an edit quoted it later that no later block held.
func (c *recorded) samples(t *testing.T) [need.Groups][]sample {
	m, err := sessioncache.NewMemory(sessioncache.MemoryOptions{MaxBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s := m.Acquire(sessioncache.Key{ID: c.file})
	p := New(Options{Policy: Observe}, func(string, time.Time) cachemodel.Rules { return keeping })
	type pending struct {
		block int
		call  int
		group need.Group
		x     need.Features
		loop  bool
		bytes int
	}
	var open []pending
	holder := map[string]int{} // line → the last block that holds it
	needed := map[int]int{}    // block → the last call whose answer needed it
	now := time.Unix(0, 0)
	body, seen := []byte(`{"model":"m","messages":[`), 0
	for k, messages := range c.calls {
		for _, msg := range messages {
			if len(body) > 25 {
				body = append(body, ',')
			}
			body = append(body, msg...)
		}
		v, err := wire.Parse(wire.Anthropic, append(body[:len(body):len(body)], `],"tools":[{"name":"a"}]}`...), nil)
		if err != nil {
			t.Fatal(err)
		}
		s.Lock()
		r := newRequest(&p.options, keeping, v, s, s.Match(v), false, now)
		s.Unlock()
		learn(&r.History)
		scratch := need.NewScratch()
		for ; seen < len(r.Blocks); seen++ {
			hold(&r.History, seen, holder)
		}
		for i, a := range scratch.Appraise(&r.History, nil) {
			if st := &r.States[i]; st.Trait != "" && st.Turn < r.States[len(r.States)-1].Turn && r.Blocks[i].Body.Len() >= minFold+stub.Length {
				open = append(open, pending{i, k, a.Group, a.X, r.loop, r.Blocks[i].Body.Len()})
			}
		}
		if k+1 == len(c.calls) {
			break
		}
		answer := c.calls[k+1][0]
		for line := range quoted(answer) {
			if b, ok := holder[line]; ok {
				needed[b] = k
			}
		}
		turn := turnOf(answer)
		p.Begin(v, s, now).Commit(turn, now)
		now = now.Add(10 * time.Second)
	}
	var out [need.Groups][]sample
	if len(needed) == 0 {
		return out // its agent edits in ways that do not show what they rely on
	}
	for _, o := range open {
		last, ok := needed[o.block]
		out[o.group] = append(out[o.group], sample{only(&o.x, o.group), need.Yes(ok && last >= o.call), o.loop, o.bytes})
	}
	return out
}

// hold notes the lines that a block holds.
func hold(f *history.History, i int, holder map[string]int) {
	note := func(text string) {
		for line := range strings.Lines(text) {
			if q, ok := reference.Quotable(line); ok {
				holder[q] = i
			}
		}
	}
	switch b := &f.Blocks[i]; b.Kind {
	case wire.KindToolUse:
		var visit func(v gjson.Result)
		visit = func(v gjson.Result) {
			v.ForEach(func(k, x gjson.Result) bool {
				switch {
				case strings.HasPrefix(k.Str, "old"):
				case x.Type == gjson.String:
					note(x.Str)
				case x.IsArray() || x.IsObject():
					visit(x)
				}
				return true
			})
		}
		visit(gjson.ParseBytes(f.View.Bytes(b.Body)))
	case wire.KindText, wire.KindToolResult:
		note(f.Text(i))
	}
}

func turnOf(answer json.RawMessage) *wire.Turn {
	t := &wire.Turn{Done: true}
	gjson.GetBytes(answer, "content").ForEach(func(_, b gjson.Result) bool {
		switch b.Get("type").Str {
		case "text":
			t.Text += b.Get("text").Str
		case "thinking":
			t.Thinking += b.Get("thinking").Str
		case "tool_use":
			t.Calls = append(t.Calls, wire.Call{ID: b.Get("id").Str, Name: b.Get("name").Str, Arguments: b.Get("input").Raw})
		}
		return true
	})
	return t
}

// logistic fits coefficients by Newton's method with a small ridge.
func logistic(data []sample) need.Features {
	const ridge = 5
	var w need.Features
	for range 25 {
		var g need.Features
		var h [need.Terms][need.Terms]float64
		for i := range data {
			x := &data[i].x
			z := 0.0
			for j := range w {
				z += w[j] * x[j]
			}
			p, n := 1/(1+math.Exp(-z)), data[i].weight()
			for j := range x {
				g[j] += n * (data[i].needed - p) * x[j]
				for l := range x {
					h[j][l] += n * p * (1 - p) * x[j] * x[l]
				}
			}
		}
		for j := range w {
			if j > 0 {
				g[j] -= ridge * w[j]
			}
			h[j][j] += ridge
		}
		step := solve(h, g)
		for j := range w {
			w[j] += step[j]
		}
	}
	return w
}

// solve solves a linear system by elimination.
func solve(a [need.Terms][need.Terms]float64, b need.Features) need.Features {
	for i := range b {
		best := i
		for j := i; j < need.Terms; j++ {
			if math.Abs(a[j][i]) > math.Abs(a[best][i]) {
				best = j
			}
		}
		a[i], a[best], b[i], b[best] = a[best], a[i], b[best], b[i]
		for j := i + 1; j < need.Terms; j++ {
			q := a[j][i] / a[i][i]
			for k := i; k < need.Terms; k++ {
				a[j][k] -= q * a[i][k]
			}
			b[j] -= q * b[i]
		}
	}
	for i := need.Terms - 1; i >= 0; i-- {
		for k := i + 1; k < need.Terms; k++ {
			b[i] -= a[i][k] * b[k]
		}
		b[i] /= a[i][i]
	}
	return b
}

func loss(data []sample, w need.Features) (sum, expected, found float64) {
	for i := range data {
		z := 0.0
		for j := range w {
			z += w[j] * data[i].x[j]
		}
		p := min(max(1/(1+math.Exp(-z)), 1e-9), 1-1e-9)
		expected += p
		found += data[i].needed
		sum -= data[i].needed*math.Log(p) + (1-data[i].needed)*math.Log(1-p)
	}
	return sum, expected, found
}

// TestFitNeed prints the coefficients of need_weights.go, fitted on all recorded
// conversations, and how well a fit on three quarters of them does on the rest.
func TestFitNeed(t *testing.T) {
	if !*fit {
		t.Skip("run with -fit to fit the need model")
	}
	var all [need.Groups][]sample
	var byFold [folds][need.Groups][]sample
	for _, c := range readRecorded(t) {
		if c.fold == *fold {
			continue
		}
		s := c.samples(t)
		for g := range s {
			all[g] = append(all[g], s[g]...)
			byFold[c.fold-1][g] = append(byFold[c.fold-1][g], s[g]...)
		}
	}
	names := [need.Groups]string{"groupResults", "groupReads", "groupInputs"}
	fields := [need.Terms]string{
		"termOne", "termAge2", "termIdle", "termIdle2", "termUnused", "termSize", "termEdited", "termWhole", "termPart", "termSearch", "termShell",
		"termOther", "termHot", "termHotIdle", "termEditAge", "termRecent", "termRereadIdle", "termTestIdle",
	}
	for g := range all {
		w := logistic(all[g])
		fmt.Printf("\t%s: {", names[g])
		for j, v := range w {
			if v != 0 {
				fmt.Printf("%s: %.2f, ", fields[j], v)
			}
		}
		fmt.Println("},")
		within, expected, found := loss(all[g], w)
		n := float64(len(all[g]))
		fmt.Printf("\t\t// %d samples, %.0f needed (%.0f expected), loss %.4f\n", len(all[g]), found, expected, within/n)
		crossed := 0.0
		for k := range byFold {
			var rest []sample
			for l := range byFold {
				if l != k {
					rest = append(rest, byFold[l][g]...)
				}
			}
			sum, e, fd := loss(byFold[k][g], logistic(rest))
			crossed += sum
			fmt.Printf("\t\t// fold %d: %d samples, %.0f needed, %.0f expected\n", k, len(byFold[k][g]), fd, e)
		}
		base := found / n
		fmt.Printf("\t\t// cross-validated loss %.4f, of the mean alone %.4f\n", crossed/n, -base*math.Log(base)-(1-base)*math.Log(1-base))
	}
}
