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

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/e2e/internal/engine"
)

// teamSystem is the system text of everybody on the team.
var teamSystem = strings.Repeat("You are an agent that looks after a repository. ", 60)

// member is somebody of the team, with an agent.
type member struct {
	name   string
	turns  []string
	system string // default: teamSystem
}

// body is the member's next request.
func (m *member) body() string {
	var b strings.Builder
	system := m.system
	if system == "" {
		system = teamSystem
	}
	fmt.Fprintf(&b, `{"model":"tiny","stream":true,"max_tokens":50,"stream_options":{"include_usage":true},"tools":[{"type":"function","function":{"name":"Read","description":"Reads a file.","parameters":{"type":"object"}}}],"messages":[{"role":"system","content":%q}`, system)
	for i, said := range m.turns {
		fmt.Fprintf(&b, `,{"role":"user","content":"%s asks question %d."},{"role":"assistant","content":%q}`, m.name, i, said)
	}
	fmt.Fprintf(&b, `,{"role":"user","content":"%s asks question %d. %s"}]}`, m.name, len(m.turns), strings.Repeat("The details follow. ", 10))
	return b.String()
}

// ask sends the member's next request, and returns the status and the answer.
func (m *member) ask(ctx context.Context, url string) (status int, answer string, header http.Header, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(m.body()))
	if err != nil {
		return 0, "", nil, err
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + m.name}}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", nil, err
	}
	defer res.Body.Close()
	said, err := io.ReadAll(res.Body)
	return res.StatusCode, string(said), res.Header, err
}

const nothingLeft = "Nothing is left to do."

// Eight people share two slots. Nobody starves, nothing is lost, and from their
// second request on everybody finds what all have in common, tools and system
// text, in the cache; what is their own may have had to give way to six others.
func TestTeam(t *testing.T) {
	span := 30 * time.Second
	if s := os.Getenv("LLM_CACHE_TEAM"); s != "" {
		var err error
		if span, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	b := startBox(t, engine.Options{Slots: 2, Layers: 8}, "upstream llama_cpp\nqueue {\nslots 2\n}")
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		waits  []time.Duration // before each answer
		people = make([][]time.Duration, 8)
	)
	end := time.Now().Add(span)
	for i := range people {
		m := &member{name: fmt.Sprintf("person-%d", i)}
		wg.Go(func() {
			for time.Now().Before(end) {
				status, answer, header, err := m.ask(t.Context(), b.url)
				if err != nil || status != http.StatusOK || !strings.Contains(answer, "[DONE]") {
					t.Errorf("%s, request %d: %d, %v: %.300s", m.name, len(m.turns), status, err, answer)
					return
				}
				wait, err := time.ParseDuration(header.Get("X-Llm-Cache-Queue-Wait-Ms") + "ms")
				if err != nil {
					t.Errorf("%s: %v", m.name, err)
				}
				mu.Lock()
				waits, people[i] = append(waits, wait), append(people[i], wait)
				mu.Unlock()
				if m.turns = append(m.turns, nothingLeft); len(m.turns) == 12 {
					m.turns = nil // the next task
				}
			}
		})
	}
	wg.Wait()
	list, err := b.engine.Requests(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != len(waits) {
		t.Errorf("%d requests were answered, the engine has seen %d", len(waits), len(list))
	}
	cold, base, sum := 0, 0, time.Duration(0)
	for _, r := range list {
		if r.Cached == 0 {
			cold++ // the first in its slot
		} else if base == 0 || r.Cached < base {
			base = r.Cached
		}
	}
	for _, w := range waits {
		sum += w
	}
	mean, longest := sum/time.Duration(max(1, len(waits))), slices.Max(waits)
	for i, list := range people {
		total, most := time.Duration(0), time.Duration(0)
		for _, w := range list {
			total, most = total+w, max(most, w)
		}
		t.Logf("person-%d: %d requests, waits: mean %v, longest %v", i, len(list), total/time.Duration(max(1, len(list))), most)
	}
	t.Logf("%d requests in %v; waits: mean %v, longest %v (%.2f times that); %d cold, all others with %d tokens or more cached", len(waits), span, mean, longest, longest.Seconds()/mean.Seconds(), cold, base)
	if cold > 2 {
		t.Errorf("%d requests found nothing in the cache, want one for each slot", cold)
	}
	if shared := len(teamSystem) / 6; base < shared {
		t.Errorf("somebody found %d tokens in the cache: not even the system text of about %d", base, shared)
	}
	// The mean is that of all requests, those that found a free slot included.
	if longest > 3*mean {
		t.Errorf("somebody waited for %v, over three times the mean of %v", longest, mean)
	}
}

// killed kills a box's engine and starts it anew.
func (b *box) killed(t *testing.T, meanwhile func()) {
	t.Helper()
	b.engine.Kill()
	meanwhile()
	if err := b.engine.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// warmed waits until the engine has read the team's base without anybody asking.
func (b *box) warmed(t *testing.T) engine.Request {
	t.Helper()
	for range 300 {
		list, err := b.engine.Requests(t.Context())
		if err == nil {
			for _, r := range list {
				if r.Messages == 2 && r.Tools > 0 && !r.Aborted {
					return r
				}
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("no warm-up within 30 seconds\n%s", b.LogTail())
	return engine.Request{}
}

// An engine that dies in the middle of an answer, with others waiting: each client
// sees an error in its format, or an answer; a retry works; the queue is empty;
// and the base is warm again before anybody asks.
func TestEngineRestart(t *testing.T) {
	b := startBox(t, engine.Options{Layers: 8}, "upstream llama_cpp\nqueue\nwarm\nlinger off")
	first := &member{name: "first"}
	if status, said, _, err := first.ask(t.Context(), b.url); status != http.StatusOK || err != nil {
		t.Fatal(status, said, err)
	}
	first.turns = append(first.turns, nothingLeft)
	if err := b.engine.Script(t.Context(), []engine.Step{{Text: strings.Repeat("word ", 3000)}}); err != nil {
		t.Fatal(err)
	}

	var wg sync.WaitGroup
	for i := range 4 {
		m := &member{name: fmt.Sprintf("waiting-%d", i)}
		wg.Go(func() {
			status, said, _, err := m.ask(t.Context(), b.url)
			whole := strings.Contains(said, "[DONE]") && err == nil
			if failed := strings.Contains(said, `"error"`); !whole && !failed && err == nil {
				t.Errorf("%s: neither an answer nor an error: %d, %.300s", m.name, status, said)
			}
		})
	}
	b.works(t, "answers", func(r engine.Request) bool { return r.Answering })
	for range 1000 { // one is in the engine, the others wait
		if b.gauge(t, "caddy_llm_cache_queue_waiting") == "3" {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	b.killed(t, func() { wg.Wait() })

	w := b.warmed(t)
	t.Logf("the warm-up: %+v", w)
	status, said, _, err := first.ask(t.Context(), b.url)
	if status != http.StatusOK || err != nil || !strings.Contains(said, "[DONE]") {
		t.Errorf("the retry: %d, %v: %.300s", status, err, said)
	}
	list, err := b.engine.Requests(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	last := list[len(list)-1]
	if last.Cached < w.Prompt/2 {
		t.Errorf("the base is not warm: %+v", last)
	}
	if waiting := b.gauge(t, "caddy_llm_cache_queue_waiting"); waiting != "0" {
		t.Errorf("%s requests wait in an idle box", waiting)
	}
}

// An engine that dies in the middle of a warm-up: who asks meanwhile sees an error
// in the client's format, and the base is warm again before anybody asks.
func TestEngineRestartWarming(t *testing.T) {
	b := startBox(t, engine.Options{Layers: 8}, "upstream llama_cpp\nqueue\nwarm\nlinger off")
	// A base that takes a while to read.
	long := &member{name: "long", system: strings.Repeat(teamSystem, 12)}
	if status, said, _, err := long.ask(t.Context(), b.url); status != http.StatusOK || err != nil {
		t.Fatal(status, said, err)
	}
	long.turns = append(long.turns, nothingLeft)
	withoutEngine := func() {
		if status, said, _, err := long.ask(t.Context(), b.url); status/100 == 2 || err != nil || !strings.Contains(said, `"error"`) {
			t.Errorf("without an engine: %d, %v: %.300s", status, err, said)
		}
	}
	b.killed(t, withoutEngine)
	cut := b.gauge(t, `caddy_llm_cache_warmups_total{outcome="unreachable"}`)
	begun := b.works(t, "reads the long base without anybody asking", func(r engine.Request) bool {
		return r.Messages == 2 && r.Tools > 0 && r.Prompt > 5000 && !r.Answering
	})
	b.killed(t, func() {
		if now := b.gauge(t, `caddy_llm_cache_warmups_total{outcome="unreachable"}`); now == cut {
			t.Errorf("%s warm-ups were cut off, as before the engine died in the middle of one", now)
		}
		withoutEngine()
	})
	w := b.warmed(t)
	if w.Prompt != begun.Prompt {
		t.Errorf("another base is warm: %+v", w)
	}
	t.Logf("the warm-up after a death in the middle of %+v: %+v", begun, w)
	if status, said, _, err := long.ask(t.Context(), b.url); status != http.StatusOK || err != nil || !strings.Contains(said, "[DONE]") {
		t.Errorf("the retry: %d, %v: %.300s", status, err, said)
	}
	list, err := b.engine.Requests(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if last := list[len(list)-1]; last.Cached < w.Prompt*9/10 {
		t.Errorf("the base is not warm: %+v", last)
	}
}

// works waits until the engine works on a request of some kind.
func (b *box) works(t *testing.T, what string, is func(engine.Request) bool) engine.Request {
	t.Helper()
	for range 3000 {
		if list, err := b.engine.Running(t.Context()); err == nil {
			if i := slices.IndexFunc(list, is); i >= 0 {
				return list[i]
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("the engine never %s\n%s", what, b.LogTail())
	return engine.Request{}
}

// gauge reads a metric.
func (b *box) gauge(t *testing.T, name string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+b.Admin+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(string(line)), name+" "); ok {
			return value
		}
	}
	return ""
}
