// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"fmt"
	"math"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	summary "github.com/caddy-llm-cache/caddy-llm-cache/internal/app/report"
)

// call is one call of a model as the provider's own books have it, in tokens by class.
type call struct {
	uncached, write5m, write1h, read, output int64

	factor float64 // of the service it is billed by, 0 for 1
	served string  // members of the answer that tell the service
	expand bool    // the model asks for folded text
	claims int64   // tokens that the provider reports beyond what there can be
	status int     // of a refusal, which costs nothing
}

func (c call) prompt() int64 { return c.uncached + c.write5m + c.write1h + c.read }

// listPrice is what a model costs by its provider's price list, in dollars for a million
// tokens. The figures are written down here, so that no price comes from the code that is
// tested.
type listPrice struct {
	input, output, write5m, write1h, read float64
	above                                 int64   // prompt tokens beyond which
	inputTier, outputTier                 float64 // it costs so many times that
}

var priceList = map[string]listPrice{
	"claude-opus-4-6":  {input: 5, output: 25, write5m: 6.25, write1h: 10, read: 0.5},
	"claude-opus-5-5":  {input: 4, output: 20, write5m: 5, write1h: 8, read: 0.2},
	"claude-haiku-5-5": {0.1, 0.5, 0.125, 0.2, 0.01, 100_000, 5, 5},
	"gpt-6.1-sol":      {2, 10, 2.5, 2.5, 0.1, 272_000, 2, 1.5},
	"gemini-3.8-flash": {input: 0.75, output: 3.75, write5m: 0.75, write1h: 0.75, read: 0.075},
}

// dollars prices one call.
func (p listPrice) dollars(c call) float64 {
	in, out, factor := 1.0, 1.0, c.factor
	if p.above > 0 && c.prompt() > p.above {
		in, out = p.inputTier, p.outputTier
	}
	if factor == 0 {
		factor = 1
	}
	prompt := float64(c.uncached)*p.input + float64(c.write5m)*p.write5m + float64(c.write1h)*p.write1h +
		float64(c.read)*p.read
	return factor * (in*prompt + out*float64(c.output)*p.output) / 1e6
}

// ledgerTurn is one request of a client, and the calls that the provider is paid for it.
type ledgerTurn struct {
	name, site, path, body string
	model                  string // that is billed
	billed                 string // the same where the client asks for another
	service                string
	calls                  []call
	edited                 bool    // by us: the client's side is simulated
	translation            float64 // dollars that the marker of the translation saves
}

// ledger is the provider: it answers as the turns say and keeps its own books.
type ledger struct {
	mu    sync.Mutex
	turns map[string]*ledgerTurn
	calls map[string]int
}

func (l *ledger) answer(u **upstream) func(w http.ResponseWriter, r *http.Request, n int) {
	return func(w http.ResponseWriter, r *http.Request, n int) {
		name := r.Header.Get("User-Agent")
		l.mu.Lock()
		t, i := l.turns[name], l.calls[name]
		l.calls[name]++
		l.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if t == nil || i >= len(t.calls) {
			_, _ = fmt.Fprint(w, `{"input_tokens":9000}`) // count_tokens: free
			return
		}
		c := t.calls[i]
		if c.status != 0 {
			w.WriteHeader(c.status)
			_, _ = fmt.Fprint(w, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)
			return
		}
		stub := ""
		if m := stubName.FindStringSubmatch((*u).requests()[n-1].body); m != nil {
			stub = m[1]
		}
		_, _ = fmt.Fprint(w, c.document(r.URL.Path, t.model, stub))
	}
}

// document is an answer in the format that a path belongs to.
func (c call) document(path, model, stub string) string {
	claimed := c.prompt() + c.claims
	inclusive := fmt.Sprintf(`{"cached_tokens":%d,"cache_write_tokens":%d}`, c.read, c.write5m)
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return fmt.Sprintf(`{"id":"c1","object":"chat.completion","created":1,"model":%q%s,"choices":[{"index":0,`+
			`"message":{"role":"assistant","content":"Done."},"finish_reason":"stop"}],`+
			`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":%s}}`, model, c.served,
			claimed, c.output, claimed+c.output, inclusive)
	case strings.HasSuffix(path, "/responses"):
		return fmt.Sprintf(`{"id":"resp_1","object":"response","status":"completed","model":%q%s,`+
			`"output":[{"type":"message","id":"msg_1","role":"assistant","status":"completed",`+
			`"content":[{"type":"output_text","text":"Done.","annotations":[]}]}],`+
			`"usage":{"input_tokens":%d,"output_tokens":%d,"total_tokens":%d,"input_tokens_details":%s}}`, model, c.served,
			claimed, c.output, claimed+c.output, inclusive)
	case strings.Contains(path, "generateContent"):
		return fmt.Sprintf(`{"candidates":[{"content":{"role":"model","parts":[{"text":"Done."}]},"finishReason":"STOP",`+
			`"index":0}],"modelVersion":%q,"responseId":"r1",`+
			`"usageMetadata":{"promptTokenCount":%d,"candidatesTokenCount":%d,"cachedContentTokenCount":%d%s}}`, model, claimed,
			c.output, c.read, c.served)
	}
	content, reason := sayText("Done."), "end_turn"
	if c.expand {
		content, reason = sayExpand("toolu_e", stub), "tool_use"
	}
	return fmt.Sprintf(`{"id":"msg_1","type":"message","role":"assistant","model":%q,"content":[%s],"stop_reason":%q,`+
		`"usage":{"input_tokens":%d,"output_tokens":%d,"cache_read_input_tokens":%d,`+
		`"cache_creation_input_tokens":%d,"cache_creation":{"ephemeral_5m_input_tokens":%d,`+
		`"ephemeral_1h_input_tokens":%d}%s}}`,
		model, content, reason, c.uncached+c.claims, c.output+c.claims, c.read, c.write5m+c.write1h, c.write5m, c.write1h,
		c.served)
}

// figures are the sums that everything has to agree on.
type figures struct {
	turns                                    float64
	uncached, write5m, write1h, read, output float64
	dollars                                  float64
}

func (f *figures) add(p listPrice, c call) {
	f.uncached, f.write5m, f.write1h = f.uncached+float64(c.uncached), f.write5m+float64(c.write5m), f.write1h+
		float64(c.write1h)
	f.read, f.output, f.dollars = f.read+float64(c.read), f.output+float64(c.output), f.dollars+p.dollars(c)
}

func (f figures) prompt() float64 { return f.uncached + f.write5m + f.write1h + f.read }

func (f figures) less(o figures) figures {
	return figures{
		f.turns - o.turns, f.uncached - o.uncached, f.write5m - o.write5m, f.write1h - o.write1h,
		f.read - o.read, f.output - o.output, f.dollars - o.dollars,
	}
}

func (f figures) agrees(o figures) bool {
	d := f.less(o)
	dollars := math.Abs(d.dollars) < 1e-9
	d.dollars = 0
	return dollars && d == figures{}
}

func of(s *summary.Sum) figures {
	b := &s.Billed
	return figures{
		float64(s.Turns), float64(b.Uncached), float64(b.Write5m), float64(b.Write1h), float64(b.Read),
		float64(b.Output), s.USD,
	}
}

// figures are what Prometheus sees, of all persons: one among many has no label of its own.
func (p *proxy) figures() figures {
	tokens := func(bucket string) float64 {
		return p.metric(fmt.Sprintf(`caddy_llm_cache_tokens_total{bucket=%q}`, bucket))
	}
	of := func(family, label string) float64 {
		return p.sum(func(name string) bool { return strings.HasPrefix(name, family+"{") && strings.Contains(name, label) })
	}
	return figures{
		of("caddy_llm_cache_person_turns_total", ""), tokens("uncached"), tokens("write_5m"), tokens("write_1h"),
		tokens("read"), tokens("output"),
		of("caddy_llm_cache_person_cost_usd_total", `kind="actual"`),
	}
}

// TestLedger: a provider keeps books of its own over a mixed day, priced by its price list.
// The record of each turn, the report, the live page, the metrics, the headers and the
// budgets say the same, to the token and to 1e-9 dollars.
func TestLedger(t *testing.T) {
	const (
		messages, chat, responses, gemini = "/v1/messages", "/v1/chat/completions", "/v1/responses",
			"/v1beta/models/claude-opus-5-5:generateContent"
		tools = `"tools":[{"type":"function","function":{"name":"Read",` +
			`"parameters":{"type":"object"}}}],`
	)
	talk := func(model string) string { return strings.Replace(agent(1, false), "claude-opus-4-6", model, 1) }
	plainCall := call{uncached: 10, write5m: 400, read: 20_000, output: 50}
	marked := priceList["claude-opus-5-5"].dollars(call{
		uncached: 20_410,
		output:   50,
	}) - priceList["claude-opus-5-5"].dollars(plainCall)
	all := []ledgerTurn{
		{name: "native", path: messages, body: talk("claude-opus-5-5"), model: "claude-opus-5-5", calls: []call{plainCall}},
		{
			name: "hour", path: messages, body: talk("claude-opus-5-5"), model: "claude-opus-5-5",
			calls: []call{{uncached: 3, write5m: 5, write1h: 7000, read: 11, output: 13}},
		},
		{
			name: "below-tier", path: messages, body: talk("claude-haiku-5-5"), model: "claude-haiku-5-5",
			calls: []call{{read: 99_000, write5m: 1000, output: 70}},
		},
		{
			name: "above-tier", path: messages, body: talk("claude-haiku-5-5"), model: "claude-haiku-5-5",
			calls: []call{{read: 99_000, write5m: 1001, output: 70}},
		},
		{
			name: "batch", path: messages, body: talk("claude-opus-5-5"), model: "claude-opus-5-5", service: "batch",
			calls: []call{{uncached: 100, output: 10, factor: 0.5, served: `,"service_tier":"batch"`}},
		},
		{
			name: "fast-us", path: messages, body: talk("claude-opus-5-5"), model: "claude-opus-5-5", service: "fast regional",
			calls: []call{{
				uncached: 100, output: 10, factor: 2.2,
				served: `,"service_tier":"standard","speed":"fast","inference_geo":"us"`,
			}},
		},
		{
			name: "side", path: messages,
			body:  `{"model":"claude-haiku-5-5","max_tokens":50,"messages":[{"role":"user","content":"A title, please."}]}`,
			model: "claude-haiku-5-5", calls: []call{{uncached: 30, output: 6}},
		},
		{
			name: "absurd", path: messages, body: talk("claude-opus-5-5"), model: "claude-opus-5-5",
			calls: []call{{uncached: 980_000, read: 20_000, output: 1000, claims: 1 << 45}},
		},
		{
			name: "overloaded", path: messages, body: talk("claude-opus-5-5"), model: "claude-opus-5-5",
			calls: []call{{status: 529}},
		},
		{name: "expanded-before", site: "fold", path: messages, body: strings.Replace(agent(4, false), "claude-opus-4-6",
			"claude-haiku-5-5", 1), model: "claude-haiku-5-5", edited: true, calls: []call{{write5m: 60_000, output: 30}}},
		{name: "expanded", site: "fold", path: messages, body: strings.Replace(agent(5, false), "claude-opus-4-6",
			"claude-haiku-5-5", 1), model: "claude-haiku-5-5", edited: true, calls: []call{
			{read: 60_000, write5m: 500, output: 30, expand: true}, {read: 60_500, write5m: 900, output: 20},
		}},
		{
			name: "flex", site: "openai", path: responses,
			body: `{"model":"gpt-6.1-sol","service_tier":"flex","input":"Hello."}`, model: "gpt-6.1-sol", service: "flex",
			calls: []call{{uncached: 100, read: 50, write5m: 25, output: 10, factor: 0.5, served: `,"service_tier":"flex"`}},
		},
		{
			name: "downgraded", site: "openai", path: responses,
			body: `{"model":"gpt-6.1-sol","service_tier":"priority","input":"Hello."}`, model: "gpt-6.1-sol",
			calls: []call{{uncached: 100, output: 10, served: `,"service_tier":"default"`}},
		},
		{
			name: "long", site: "openai", path: chat,
			body: `{"model":"gpt-6.1-sol","messages":[{"role":"user","content":"Hello."}]}`, model: "gpt-6.1-sol",
			calls: []call{{uncached: 272_000, read: 1, output: 10}},
		},
		{
			name: "gemini-priority", site: "gemini", path: "/v1beta/models/gemini-3.8-flash:generateContent",
			body: `{"contents":[{"role":"user","parts":[{"text":"Hello."}]}]}`, model: "gemini-3.8-flash", service: "priority",
			calls: []call{{uncached: 100, read: 40, output: 10, factor: 1.8, served: `,"trafficType":"ON_DEMAND_PRIORITY"`}},
		},
		{
			name: "chat-on-claude", path: chat, body: `{"model":"claude-opus-5-5",` + tools +
				`"messages":[{"role":"user","content":"Hello."}]}`, model: "claude-opus-5-5", translation: marked,
			calls: []call{plainCall},
		},
		{
			name: "responses-on-claude", path: responses,
			body: `{"model":"claude-opus-5-5","tools":[{"type":"function","name":"Read","parameters":{"type":"object"}}],` +
				`"input":"Hello."}`, model: "claude-opus-5-5", translation: marked, calls: []call{plainCall},
		},
		{
			name: "gemini-on-claude", path: gemini,
			body: `{"contents":[{"role":"user","parts":[{"text":"Hello."}]}],` +
				`"tools":[{"functionDeclarations":[{"name":"Read","parameters":{"type":"OBJECT"}}]}]}`, model: "claude-opus-5-5",
			translation: marked, calls: []call{plainCall},
		},
		{
			name: "messages-on-gpt", site: "openai", path: messages, body: talk("claude-opus-5-5"), model: "gpt-6.1-sol",
			billed: "gpt-6.1-sol", service: "priority",
			calls: []call{{uncached: 100, read: 50, output: 10, factor: 2, served: `,"service_tier":"priority"`}},
		},
	}
	books := &ledger{turns: map[string]*ledgerTurn{}, calls: map[string]int{}}
	for i := range all {
		books.turns[all[i].name] = &all[i]
	}
	var u *upstream
	u = newUpstream(t, books.answer(&u))
	path := filepath.Join(t.TempDir(), "audit.db")
	p := start(t, "respond 204")
	to := "reverse_proxy " + u.Listener.Addr().String()
	site := "@openai header X-Site openai\nhandle @openai {\nllm_cache {\nexpand off\nbreakpoints off\nupstream openai " +
		"{\nmodel claude-* gpt-6.1-sol\n}\n}\n" + to + "\n}\n" +
		"@gemini header X-Site gemini\nhandle @gemini {\nllm_cache {\nupstream gemini\n}\n" + to + "\n}\n" +
		"@fold header X-Site fold\nhandle @fold {\n" + pruning(u) + "\n}\n" +
		"handle {\nllm_cache {\nupstream anthropic\nexpand off\nbreakpoints off\n}\n" + to + "\n}"
	p.move()
	p.load([]byte(strings.Replace(string(p.auditing(site, sqliteAt(path, ""))), `"llm_cache":{`,
		`"llm_cache":{"users":[{"name":"ledger","keys":["sk-ledger"],"budgets":[{"dollars":1000}]}],`, 1)))

	before := p.figures()
	want, each, records := figures{}, map[string]figures{}, 0
	for i := range all {
		turn := &all[i]
		alone := figures{turns: 1}
		for _, c := range turn.calls {
			alone.add(priceList[turn.model], c)
			want.add(priceList[turn.model], c)
		}
		want.turns++
		each[turn.name], records = alone, records+len(turn.calls)
		res := p.post(turn.path, turn.body, "X-Api-Key", "sk-ledger", "Authorization", "Bearer sk-ledger", "User-Agent",
			turn.name, "X-Site", turn.site, "X-Session-Id", strings.TrimSuffix(turn.name, "-before"))
		body := read(t, res)
		if got, status := books.calls[turn.name], res.StatusCode; got != len(turn.calls) || status/100 != 2 &&
			turn.calls[0].status == 0 {
			t.Fatalf("%s: %d calls, want %d, answered %d: %s", turn.name, got, len(turn.calls), status, body)
		}
		if got, want := res.Header.Get("X-Llm-Cache-Cached-Tokens"),
			strconv.FormatFloat(alone.read, 'f', 0, 64); got != want &&
			turn.calls[0].status == 0 {
			t.Errorf("%s: header says %q tokens are cached, want %s", turn.name, got, want)
		}
		if got := res.Header.Get("X-Llm-Cache-Model"); got != turn.billed {
			t.Errorf("%s: header says model %q, want %q", turn.name, got, turn.billed)
		}
	}
	read(t, p.post(messages+"/count_tokens", talk("claude-opus-5-5"), "X-Api-Key", "sk-ledger", "User-Agent", "counts"))

	sums := map[string]*summary.Sum{}
	for _, r := range turns(t, path, records) {
		if sums[r.Client] == nil {
			sums[r.Client] = new(summary.Sum)
		}
		sums[r.Client].Add(&r)
		turn := books.turns[r.Client]
		if turn == nil {
			t.Errorf("%s: a record of no turn", r.Client)
			continue
		}
		if r.Service != turn.service && r.Kind != audit.KindExpand || r.BilledModel != turn.billed {
			t.Errorf("%s: got service %q and model %q, want %q and %q", r.Client, r.Service, r.BilledModel, turn.service,
				turn.billed)
		}
		if r.Bounded != (turn.calls[0].claims > 0) {
			t.Errorf("%s: bounded %t", r.Client, r.Bounded)
		}
		if math.Abs(r.TranslationUSD-turn.translation) > 1e-9 {
			t.Errorf("%s: translation saved $%v, want $%v", r.Client, r.TranslationUSD, turn.translation)
		}
		if prompts := int64(each[turn.name].prompt()); turn.edited && len(turn.calls) > 1 && r.Kind != audit.KindExpand &&
			(r.ClientBilled.Prompt() == 0 || r.ClientBilled.Prompt() > prompts*2/3) {
			t.Errorf("%s: the client's own bytes would have been %d tokens, of %d in all calls: they would have had one",
				r.Client, r.ClientBilled.Prompt(), prompts)
		}
	}
	for name, want := range each {
		if sums[name] == nil || !of(sums[name]).agrees(want) {
			t.Errorf("record of %s: got %+v, want %+v", name, of(sums[name]), want)
		}
		if s := sums[name]; !books.turns[name].edited && s != nil && math.Abs(s.ClientUSD-s.USD) > 1e-9 {
			t.Errorf("%s: nothing was edited, and the client's own bytes cost $%v for $%v", name, s.ClientUSD, s.USD)
		}
	}
	if got := p.figures().less(before); !got.agrees(want) {
		t.Errorf("metrics: got %+v, want %+v", got, want)
	}
	from, err := audit.ReadSQLite(path)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	for _, by := range summary.Keys {
		s, err := summary.Summarise(t.Context(), from, time.Time{}, by)
		if err != nil {
			t.Fatal(err)
		}
		var groups summary.Sum
		for _, g := range s.Groups {
			groups.Join(g.Sum)
		}
		if got := of(s.Total); !got.agrees(want) || !of(&groups).agrees(want) {
			t.Errorf("report by %s: got %+v, groups %+v, want %+v", by, got, of(&groups), want)
		}
	}
	var view string
	p.adminDo(http.MethodGet, "/llm_cache/data", &view)
	for _, person := range gjson.Get(view, `today.dimensions.#(key=="user").sums`).Array() {
		if person.Get("name").Str == "ledger" {
			b := person.Get("billed")
			got := figures{
				person.Get("turns").Num, b.Get("uncached").Num, b.Get("write_5m").Num, b.Get("write_1h").Num,
				b.Get("read").Num, b.Get("output").Num, person.Get("usd").Num,
			}
			if !got.agrees(want) {
				t.Errorf("page: got %+v, want %+v", got, want)
			}
		}
	}
	var csv, turns string
	p.adminDo(http.MethodGet, "/llm_cache/csv?by=user&range=7d", &csv)
	p.adminDo(http.MethodGet, "/llm_cache/turns?user=ledger&range=7d", &turns)
	if line := fmt.Sprintf("\nledger,%.0f,", want.turns); !gjson.Get(view, "stored").Bool() || !strings.Contains(csv, line) {
		t.Errorf("page: want a line %q in %q", line, csv)
	}
	n := gjson.Get(turns, `#(kind=="turn")#|#`).Num + gjson.Get(turns, `#(kind=="side")#|#`).Num
	if n != want.turns {
		t.Errorf("page: got %v turns of the user, want %v", n, want.turns)
	}
	if got := 1000 * gjson.Get(view, `budgets.#(name=="ledger").share`).Num; math.Abs(got-want.dollars) > 1e-9 {
		t.Errorf("budget: got $%v, want $%v of %s", got, want.dollars, gjson.Get(view, "budgets").Raw)
	}
}
