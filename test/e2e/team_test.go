// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/engine"
)

// teamSystem is the system text of all members.
var teamSystem = strings.Repeat("You are an agent that looks after a repository. ", 60)

// member is a member of the team, with an agent.
type member struct {
	name   string
	turns  []string
	system string // default: teamSystem
}

// body returns the member's next request.
func (m *member) body() string {
	var b strings.Builder
	system := m.system
	if system == "" {
		system = teamSystem
	}
	fmt.Fprintf(&b,
		`{"model":"tiny","stream":true,"max_tokens":50,"stream_options":{"include_usage":true},`+
			`"tools":[{"type":"function","function":{"name":"Read","description":"Reads a file.",`+
			`"parameters":{"type":"object"}}}],"messages":[{"role":"system","content":%q}`, system)
	for i := range len(m.turns) + 1 {
		fmt.Fprintf(&b, `,{"role":"user","content":"%s asks question %d. %s"}`, m.name, i,
			strings.Repeat("The details follow. ", 10))
		if i < len(m.turns) {
			fmt.Fprintf(&b, `,{"role":"assistant","content":%q}`, m.turns[i])
		}
	}
	b.WriteString(`]}`)
	return b.String()
}

// ask sends the member's next request, and returns the status and the response.
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

// Eight users share two slots. No user starves, and no request is lost. From their second request
// on all find the common prefix, tools and system text, in the cache. A server that keeps prompts
// besides its slots has each user's own prompt as well. Without that, six others have used the slot
// meanwhile.
func TestTeam(t *testing.T) {
	span := 20 * time.Second
	if s := os.Getenv("LLM_CACHE_TEAM"); s != "" {
		var err error
		if span, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, upstream string
		prompts        int
	}{
		{"slots only", "llama_cpp", 0},
		{"ten prompts besides", "mlx_lm", 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := startBox(t, engine.Options{Slots: 2, Layers: 8, Prompts: c.prompts}, "upstream "+c.upstream+
				"\nqueue {\nslots 2\n}")
			b.team(t, span, c.prompts > 0)
		})
	}
}

// team runs eight users for a while. If checksOwn is set, each user must find the own last prompt in the
// cache. Starvation is measured in responses to others: the clock would count other work of the
// machine, too.
func (b *box) team(t *testing.T, span time.Duration, checksOwn bool) {
	// The common prefix is read first: waiting for that is not waiting for the others.
	if status, answer, _, err := (&member{name: "early"}).ask(t.Context(), b.url); status != http.StatusOK || err != nil {
		t.Fatal(status, answer, err)
	}
	if err := b.engine.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		turns   []int           // responses to others during one wait
		waits   []time.Duration // before each response
		people  = make([][]time.Duration, 8)
		further []float64 // shares of users' last prompts that were cached
	)
	end := time.Now().Add(span)
	for i := range people {
		m := &member{name: fmt.Sprintf("person-%d", i)}
		wg.Go(func() {
			last := int64(0)
			for time.Now().Before(end) {
				mu.Lock()
				before := len(waits)
				mu.Unlock()
				status, answer, header, err := m.ask(t.Context(), b.url)
				if err != nil || status != http.StatusOK || !strings.Contains(answer, "[DONE]") {
					t.Errorf("%s, request %d: %d, %v: %.300s", m.name, len(m.turns), status, err, answer)
					return
				}
				wait, err := time.ParseDuration(header.Get("X-Llm-Cache-Queue-Wait-Ms") + "ms")
				if err != nil {
					t.Errorf("%s: %v", m.name, err)
				}
				prompt, cached := usageOf(answer)
				mu.Lock()
				turns = append(turns, len(waits)-before)
				waits, people[i] = append(waits, wait), append(people[i], wait)
				if last > 0 {
					further = append(further, float64(cached)/float64(last))
				}
				mu.Unlock()
				if checksOwn && cached < last {
					t.Errorf("%s, request %d: %d tokens of %d were cached, and the prompt before had %d", m.name, len(m.turns), cached,
						prompt, last)
				}
				last = prompt
				if m.turns = append(m.turns, nothingLeft); len(m.turns) == 12 {
					m.turns, last = nil, 0 // the next task
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
		t.Logf("person-%d: %d requests, waits: mean %v, longest %v", i, len(list), total/time.Duration(max(1, len(list))),
			most)
	}
	most, others := slices.Max(turns), 0
	for _, n := range turns {
		others += n
	}
	t.Logf("%d requests in %v; waits: mean %v, longest %v (%.2f times that), behind %d others at most, %.1f in the "+
		"mean; %d cold, all others with %d tokens or more cached",
		len(waits), span, mean, longest, longest.Seconds()/mean.Seconds(), most, float64(others)/float64(len(turns)),
		cold, base)
	if len(further) == 0 {
		t.Fatal("nobody came to a second request")
	}
	found := 0.0
	for _, share := range further {
		found += share
	}
	t.Logf("of their last prompts people found %.1f %% again, at least %.1f %%, in %d requests",
		100*found/float64(len(further)), 100*slices.Min(further), len(further))
	if cold > 2 {
		t.Errorf("%d requests found nothing in the cache, want one for each slot", cold)
	}
	if shared := len(teamSystem) / 6; base < shared {
		t.Errorf("somebody found %d tokens in the cache: not even the system text of about %d", base, shared)
	}
	// The mean includes requests that found a free slot.
	if most*len(turns) > 3*others {
		t.Errorf("somebody waited while %d others had their answers, over three times the mean of %.1f", most,
			float64(others)/float64(len(turns)))
	}
}

// usageOf reads the engine's usage at the end of a stream.
func usageOf(answer string) (prompt, cached int64) {
	for line := range strings.Lines(answer) {
		var chunk struct {
			Usage struct {
				Prompt  int64 `json:"prompt_tokens"`
				Details struct {
					Cached int64 `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			} `json:"usage"`
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if ok && json.Unmarshal([]byte(data), &chunk) == nil && chunk.Usage.Prompt > 0 {
			prompt, cached = chunk.Usage.Prompt, chunk.Usage.Details.Cached
		}
	}
	return prompt, cached
}

// killed kills a box's engine and restarts it.
func (b *box) killed(t *testing.T, meanwhile func()) {
	t.Helper()
	b.engine.Kill()
	meanwhile()
	if err := b.engine.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// warmed waits until the engine has read the team's common prefix in a warm-up.
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

// An engine dies in the middle of a response, with others waiting. Each client gets an error in its
// format or a response, a retry works, the queue is empty, and the common prefix is warm again
// before the next request.
func TestEngineRestart(t *testing.T) {
	b := startBox(t, engine.Options{Layers: 8}, "upstream llama_cpp\nqueue\nwarm\nrejoin off")
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

// An engine dies in the middle of a warm-up: a request meanwhile gets an error in the client's
// format, and the common prefix is warm again before the next request.
func TestEngineRestartWarming(t *testing.T) {
	b := startBox(t, engine.Options{Layers: 8}, "upstream llama_cpp\nqueue\nwarm\nrejoin off")
	// A prefix that takes a while to read.
	long := &member{name: "long", system: strings.Repeat(teamSystem, 12)}
	if status, said, _, err := long.ask(t.Context(), b.url); status != http.StatusOK || err != nil {
		t.Fatal(status, said, err)
	}
	long.turns = append(long.turns, nothingLeft)
	withoutEngine := func() {
		if status, said, _, err := long.ask(t.Context(), b.url); status/100 == 2 || err != nil ||
			!strings.Contains(said, `"error"`) {
			t.Errorf("without an engine: %d, %v: %.300s", status, err, said)
		}
	}
	b.killed(t, withoutEngine)
	cut := b.gauge(t, `caddy_llm_cache_warmups_total{outcome="unreachable"}`)
	begun := b.works(t, "reads the long base without anybody asking", func(r engine.Request) bool {
		return r.Messages == 2 && r.Tools > 0 && r.Prompt > 5000 && !r.Answering
	})
	b.killed(t, func() {
		withoutEngine()
		// This attempt, or the one after it.
		b.counts(t, `caddy_llm_cache_warmups_total{outcome="unreachable"}`, cut)
	})
	w := b.warmed(t)
	if w.Prompt != begun.Prompt {
		t.Errorf("another base is warm: %+v", w)
	}
	t.Logf("the warm-up after a death in the middle of %+v: %+v", begun, w)
	if status, said, _, err := long.ask(t.Context(), b.url); status != http.StatusOK || err != nil ||
		!strings.Contains(said, "[DONE]") {
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

// counts waits until a metric changes.
func (b *box) counts(t *testing.T, name, before string) {
	t.Helper()
	for range 500 {
		if b.gauge(t, name) != before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%s is still %s", name, before)
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
