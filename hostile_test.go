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

package llmcache

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/jsonsuite"
)

// By hand it is 31; in CI the tests shall not take long.
var hostileSize = flag.Int("hostile", 1, "MiB that hostile bodies take, before a content coding")

// hostileSites are the same for all: a site that edits what it may, one that puts
// every other format into Anthropic's, and a box that is spoken to in chat
// completions, with all that is done to its prompts. The bare one is what they are
// measured against.
const hostileSites = `
handle_path /bare/* {
	reverse_proxy %[1]s
}
handle_path /native/* {
	llm_cache {
		policy eager
		zones {
			frozen 0
			hot 1
			min_messages 0
		}
	}
	reverse_proxy %[1]s
}
handle_path /hosted/* {
	llm_cache {
		upstream anthropic
	}
	reverse_proxy %[1]s
}
handle_path /box/* {
	llm_cache {
		upstream mlx_lm
	}
	reverse_proxy %[1]s
}
`

// dialect is a format in which hostile values are said.
type dialect struct {
	name, path string
	own        string // the site, besides native, that speaks it
	body       string // of CONTENT, INPUT, RESULT and SCHEMA
	text       bool   // INPUT is JSON in a string
}

var dialects = []dialect{
	{
		"anthropic", "/v1/messages", "hosted",
		`{"model":"claude-opus-4-6","max_tokens":100,"tools":[{"name":"Read","input_schema":SCHEMA}],"messages":[{"role":"user","content":CONTENT},` +
			`{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"Read","input":INPUT}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":RESULT}]}]}`, false,
	},
	{
		"chat", "/v1/chat/completions", "",
		`{"model":"m","tools":[{"type":"function","function":{"name":"Read","parameters":SCHEMA}}],"messages":[{"role":"user","content":CONTENT},` +
			`{"role":"assistant","tool_calls":[{"id":"call_1","type":"function","function":{"name":"Read","arguments":INPUT}}]},{"role":"tool","tool_call_id":"call_1","content":RESULT}]}`, true,
	},
	{
		"responses", "/v1/responses", "",
		`{"model":"m","tools":[{"type":"function","name":"Read","parameters":SCHEMA}],"input":[{"role":"user","content":CONTENT},` +
			`{"type":"function_call","call_id":"call_1","name":"Read","arguments":INPUT},{"type":"function_call_output","call_id":"call_1","output":RESULT}]}`, true,
	},
	{
		"gemini", "/v1beta/models/gemini-3-pro:generateContent", "",
		`{"tools":[{"functionDeclarations":[{"name":"Read","parametersJsonSchema":SCHEMA}]}],"contents":[{"role":"user","parts":[{"text":CONTENT}]},` +
			`{"role":"model","parts":[{"functionCall":{"name":"Read","args":INPUT}}]},{"role":"user","parts":[{"functionResponse":{"name":"Read","response":{"output":RESULT}}}]}]}`, false,
	},
}

// say puts a value into a body, in the place of a name.
func (d *dialect) say(name, value string) string {
	input := `{}`
	if d.text {
		input = `"{}"`
	}
	parts := map[string]string{"CONTENT": `"hi"`, "INPUT": input, "RESULT": `"ok"`, "SCHEMA": `{"type":"object"}`}
	parts[name] = value
	var b strings.Builder
	for rest := d.body; ; {
		at, next := len(rest), ""
		for part := range parts {
			if i := strings.Index(rest, part); i >= 0 && i < at {
				at, next = i, part
			}
		}
		b.WriteString(rest[:at])
		if next == "" {
			return b.String()
		}
		b.WriteString(parts[next])
		rest = rest[at+len(next):]
	}
}

// hostility is a Caddy with the sites, in front of an upstream that remembers nothing
// but the hash of what it got last.
type hostility struct {
	*proxy
	mu  sync.Mutex
	got [sha256.Size]byte
	n   int64
}

func newHostility(t *testing.T) *hostility {
	h := new(hostility)
	u := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.New()
		n, err := io.Copy(sum, r.Body)
		if err != nil {
			return
		}
		h.mu.Lock()
		sum.Sum(h.got[:0])
		h.n = n
		h.mu.Unlock()
		answer := message
		switch {
		case strings.HasSuffix(r.URL.Path, "/chat/completions"):
			answer = chatMessage
		case strings.HasSuffix(r.URL.Path, "/responses"):
			answer = completed
		case strings.HasSuffix(r.URL.Path, ":generateContent"):
			answer = `{"candidates":[{"content":{"role":"model","parts":[{"text":"Done."}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":2,"totalTokenCount":12}}`
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(u.Close)
	h.proxy = start(t, fmt.Sprintf(hostileSites, u.Listener.Addr()))
	h.client = &http.Client{Transport: &http.Transport{DisableCompression: true}}
	t.Cleanup(h.client.CloseIdleConnections)
	return h
}

// try sends a body and judges what came of it: upstream got it as it was, or, where it
// had to be put into other words, the client an answer or an error of its format.
func (h *hostility) try(t *testing.T, site string, d *dialect, name, body, coding string) {
	t.Helper()
	h.mu.Lock()
	h.n = -1
	h.mu.Unlock()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+h.addr+"/"+site+d.path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if coding != "" {
		req.Header.Set("Content-Encoding", coding)
	}
	res, err := h.client.Do(req)
	if err != nil {
		t.Errorf("%s in %s, %s: %v", name, d.name, site, err)
		return
	}
	answer, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil || !json.Valid(answer) {
		t.Errorf("%s in %s, %s: %v, answered by %.200s", name, d.name, site, err, answer)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	as := sha256.Sum256([]byte(body)) == h.got && h.n == int64(len(body))
	switch {
	case res.StatusCode == http.StatusOK && (as || site == "box" || site != "native" && site != d.own && site != "bare"):
	case res.StatusCode == http.StatusOK && res.Header.Get("X-Llm-Cache-Transforms") != "none" && res.Header.Get("X-Llm-Cache-Transforms") != "":
	case res.StatusCode == http.StatusBadRequest && h.n < 0 && bytes.Contains(answer, []byte(`"error"`)) && site != "native" && site != d.own && site != "bare":
	default:
		t.Errorf("%s in %s, %s: status %d, upstream got %d bytes (as they were: %t) of %d; %.200s", name, d.name, site, res.StatusCode, h.n, as, len(body), answer)
	}
}

// TestJSONTestSuite sends every case of the suite as a body and as each of its parts.
func TestJSONTestSuite(t *testing.T) {
	cases, err := jsonsuite.Cases()
	if err != nil {
		t.Fatal(err)
	}
	h := newHostility(t)
	for i, c := range cases {
		if testing.Short() && i%8 > 0 {
			continue
		}
		for j := range dialects {
			d := &dialects[j]
			inner := quoted(strings.ToValidUTF8(c.Text, "?"))
			bodies := map[string]string{
				"whole": c.Text, "content": d.say("CONTENT", c.Text), "schema": d.say("SCHEMA", c.Text), "result": d.say("RESULT", c.Text),
				"text of a result": d.say("RESULT", inner), "output in a result": d.say("RESULT", quoted(`{"output":`+strings.ToValidUTF8(c.Text, "?")+`,"metadata":{}}`)),
				"input": d.say("INPUT", c.Text),
			}
			if d.text {
				bodies["text of an input"] = d.say("INPUT", inner)
			}
			for place, body := range bodies {
				// The sites take turns.
				site := []string{"native", "hosted", "box"}[(i+j+len(place))%3]
				h.try(t, site, d, c.Name+" as "+place, body, "")
			}
		}
	}
}

// generator makes a hostile body of about n bytes.
type generator struct {
	name   string
	coding string
	make   func(t *testing.T, d *dialect, n int) string
}

func repeated(open, unit, end string, n int) string {
	return open + strings.Repeat(unit, max(n/len(unit), 1)) + end
}

// part makes generators of a value in one place.
func part(place string, value func(n int) string) func(*testing.T, *dialect, int) string {
	return func(_ *testing.T, d *dialect, n int) string { return d.say(place, value(n)) }
}

// listed is a list of one element over and over.
func listed(element string) func(int) string {
	return func(n int) string { return repeated("["+element, ","+element, "]", n) }
}

// zipped packs what another generator makes, as often as told.
func zipped(times int, inner func(*testing.T, *dialect, int) string) func(*testing.T, *dialect, int) string {
	return func(t *testing.T, d *dialect, n int) string {
		body := inner(t, d, n)
		for range times {
			body = gzipped(t, body)
		}
		return body
	}
}

func zstdOf(inner func(*testing.T, *dialect, int) string, options ...zstd.EOption) func(*testing.T, *dialect, int) string {
	return func(t *testing.T, d *dialect, n int) string {
		return compress(t, []byte(inner(t, d, n)), func(w io.Writer) io.WriteCloser {
			z, err := zstd.NewWriter(w, options...)
			if err != nil {
				t.Fatal(err)
			}
			return z
		})
	}
}

var (
	longText   = part("CONTENT", func(n int) string { return repeated(`"`, "x", `"`, n) })
	manyBlocks = part("CONTENT", listed(`{}`))
	bracketsIn = func(open string) func(int) string {
		return func(n int) string { return quoted(open + strings.Repeat("[", n)) }
	}
)

// asInput says a text as the input of a call: a string, or a member of an object.
func asInput(text func(n int) string) func(*testing.T, *dialect, int) string {
	return func(_ *testing.T, d *dialect, n int) string {
		if d.text {
			return d.say("INPUT", text(n))
		}
		return d.say("INPUT", `{"file_path":`+text(n)+`}`)
	}
}

var generators = []generator{
	{"deep arrays", "", part("CONTENT", func(n int) string { return strings.Repeat("[", n/2) + strings.Repeat("]", n/2) })},
	{"deep objects", "", part("SCHEMA", func(n int) string { return strings.Repeat(`{"a":`, n/6) + "1" + strings.Repeat("}", n/6) })},
	{"depth at the bound", "", part("SCHEMA", func(n int) string {
		deep := strings.Repeat(`{"properties":`, 500) + "{}" + strings.Repeat("}", 500)
		return repeated(`{"anyOf":[`+deep, ","+deep, "]}", n)
	})},
	{"brackets in an input", "", asInput(bracketsIn(`{"output":`))},
	{"brackets in a result", "", part("RESULT", bracketsIn(`{"output":`))},
	{"nesting in a result", "", part("RESULT", func(n int) string {
		return quoted(`{"output":"x","metadata":` + strings.Repeat("[", n/2) + strings.Repeat("]", n/2) + "}")
	})},
	{"many keys", "", part("SCHEMA", func(n int) string { return repeated(`{"type":"object"`, `,"k":1`, "}", n) })},
	{"many keys of a message", "", func(_ *testing.T, d *dialect, n int) string {
		return strings.Replace(d.say("CONTENT", `"hi"`), `{"role":"user"`, repeated(`{"role":"user"`, `,"k":1`, "", n), 1)
	}},
	{"many members", "", func(_ *testing.T, d *dialect, n int) string {
		return repeated(`{"k":1`, `,"k":1`, ",", n) + d.say("CONTENT", `"hi"`)[1:]
	}},
	{"many blocks", "", manyBlocks},
	{"many texts", "", part("CONTENT", listed(`{"type":"text","text":"a"}`))},
	{"many parts of a result", "", part("RESULT", listed(`{"type":"text","text":"a"}`))},
	{"many empty parts of a result", "", part("RESULT", listed(`{}`))},
	{"numbers for a result", "", part("RESULT", listed(`1`))},
	{"many messages", "", func(_ *testing.T, d *dialect, n int) string {
		m := map[string]string{"gemini": `{"role":"user","parts":[{"text":"a"}]},`}[d.name]
		if m == "" {
			m = `{"role":"user","content":"a"},`
		}
		return strings.Replace(d.say("CONTENT", `"hi"`), `[{"role":"user"`, repeated("[", m, `{"role":"user"`, n), 1)
	}},
	{"100,000 messages", "", func(_ *testing.T, d *dialect, n int) string {
		m := map[string]string{"gemini": `{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"text":"b"}]},`}[d.name]
		if m == "" {
			m = `{"role":"user","content":"a"},{"role":"assistant","content":"b"},`
		}
		return strings.Replace(d.say("CONTENT", `"hi"`), `[{"role":"user"`, repeated("[", m, `{"role":"user"`, min(n, 40_000*len(m))), 1)
	}},
	{"many tools", "", func(_ *testing.T, d *dialect, n int) string {
		tool := map[string]string{
			"anthropic": `{"name":"a","input_schema":{}},`, "chat": `{"type":"function","function":{"name":"a"}},`,
			"responses": `{"type":"function","name":"a","parameters":{}},`, "gemini": `{"functionDeclarations":[{"name":"a"}]},`,
		}[d.name]
		return strings.Replace(d.say("CONTENT", `"hi"`), `"tools":[`, repeated(`"tools":[`, tool, "", n), 1)
	}},
	{"long text", "", longText},
	{"long key", "", part("SCHEMA", func(n int) string { return repeated(`{"`, "k", `":1}`, n) })},
	{"many escapes", "", part("CONTENT", func(n int) string { return repeated(`"`, `\n\"\\`, `"`, n) })},
	{"escaped NULs", "", part("RESULT", func(n int) string { return repeated(`"`, `\u0000`, `"`, n) })},
	{"NULs", "", part("CONTENT", func(n int) string { return repeated(`"`, "\x00", `"`, n) })},
	{"only NULs", "", func(_ *testing.T, _ *dialect, n int) string { return strings.Repeat("\x00", n) }},
	{"long number", "", part("SCHEMA", func(n int) string { return repeated(`{"minimum":1`, "0", "}", n) })},
	{"long exponent", "", part("SCHEMA", func(n int) string { return repeated(`{"minimum":1e`, "9", "}", n) })},
	{"duplicate keys", "", func(_ *testing.T, d *dialect, n int) string {
		return strings.Replace(d.say("CONTENT", `"hi"`), `{"role":"user"`, repeated(`{"role":"user"`, `,"role":"user"`, "", n), 1)
	}},
	{"half surrogates", "", part("RESULT", func(n int) string { return repeated(`"`, `\ud83d`, `"`, n) })},
	{"invalid UTF-8", "", part("RESULT", func(n int) string { return repeated(`"`, "\xff\xc3", `"`, n) })},
	{"empty lines", "", part("RESULT", func(n int) string { return repeated(`"`, `\n`, `"`, n) })},
	{"carriage returns", "", part("RESULT", func(n int) string { return repeated(`"`, `50%\r`, `"`, n) })},
	{"terminal escapes", "", part("RESULT", func(n int) string { return repeated(`"`, `\u001b[31mx`, `"`, n) })},
	{"short lines", "", part("RESULT", func(n int) string {
		var b strings.Builder
		for i := 0; b.Len() < n; i++ {
			fmt.Fprintf(&b, `%d\n`, i)
		}
		return `"` + b.String() + `"`
	})},
	{"tags that stay open", "", part("CONTENT", func(n int) string { return repeated(`"`, `<env>\n`, `"`, min(n, 1_000_000)) })},
	{"sections that stay open", "", part("CONTENT", func(n int) string {
		return repeated(`"<system-reminder>\n`, `gitStatus:\n`, `"`, min(n, 1_000_000))
	})},
	{"white space", "", func(_ *testing.T, d *dialect, n int) string {
		return strings.Repeat(" \n", n/2) + d.say("CONTENT", `"hi"`)
	}},
	{"a BOM", "", func(_ *testing.T, d *dialect, _ int) string { return "\ufeff" + d.say("CONTENT", `"hi"`) }},
	{"trailing data", "", func(_ *testing.T, d *dialect, n int) string { return repeated(d.say("CONTENT", `"hi"`), "{}", "", n) }},
	{"truncated", "", func(t *testing.T, d *dialect, n int) string { return longText(t, d, n)[:n/2] }},
	{"gzip of one letter", "gzip", zipped(1, longText)},
	{"gzip of blocks", "gzip", zipped(1, manyBlocks)},
	{"gzip in gzip", "gzip", zipped(2, longText)},
	{"gzip in gzip in gzip", "gzip, gzip, gzip", zipped(3, longText)},
	{"gzip members", "gzip", func(t *testing.T, d *dialect, n int) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_ = z.Close()
		return strings.Repeat(b.String(), max(min(n, 1<<20)/b.Len(), 1)) + gzipped(t, d.say("CONTENT", `"hi"`))
	}},
	{"gzip with a tail", "gzip", func(t *testing.T, d *dialect, n int) string {
		return gzipped(t, longText(t, d, n)) + strings.Repeat("x", 99)
	}},
	{"half of a gzip", "gzip", func(t *testing.T, d *dialect, n int) string {
		packed := gzipped(t, longText(t, d, n))
		return packed[:len(packed)/2]
	}},
	{"zstd of one letter", "zstd", zstdOf(longText)},
	{"zstd of blocks", "zstd", zstdOf(manyBlocks)},
	{"zstd of a huge window", "zstd", zstdOf(longText, zstd.WithWindowSize(zstd.MaxWindowSize))},
	{"zstd with a dictionary", "zstd", zstdOf(longText, zstd.WithEncoderDictRaw(7, bytes.Repeat([]byte("xy"), 512)))},
	{"half of a zstd", "zstd", func(t *testing.T, d *dialect, n int) string {
		packed := zstdOf(longText)(t, d, n)
		return packed[:len(packed)/2]
	}},
}

// TestHostileBodies sends bodies that are made to cost. What each costs is printed
// by -v; the bound on memory is a generous one, that on time is on paper only.
//
//	go test . -run TestHostileBodies -hostile 31 -v
func TestHostileBodies(t *testing.T) {
	h := newHostility(t)
	size := *hostileSize << 20
	if testing.Short() {
		size = 1 << 18
	}
	t.Log("peak memory in MB and processor time in ms of one request, client and upstream included; the worst of all formats")
	t.Logf("%-28s %9s  %-12s %-12s %-12s %-12s", "body", "sent, KB", "bare", "native", "hosted", "box")
	for _, g := range generators {
		t.Run(g.name, func(t *testing.T) { h.cost(t, &g, size) })
	}
}

// cost tries what a generator makes at all sites, in all formats.
func (h *hostility) cost(t *testing.T, g *generator, size int) {
	var row strings.Builder
	var sent int
	var bare int64
	for i, site := range []string{"bare", "native", "hosted", "box"} {
		var worst [2]int64
		in := ""
		for j := range dialects {
			if i == 0 && j > 0 {
				break // they are all one
			}
			d := &dialects[j]
			body := g.make(t, d, size)
			sent = max(sent, len(body))
			mb, ms := measured(func() { h.try(t, site, d, g.name, body, g.coding) })
			if ms > worst[1] {
				in = d.name[:1]
			}
			worst = [2]int64{max(worst[0], mb), max(worst[1], ms)}
		}
		fmt.Fprintf(&row, " %4d %5d %s", worst[0], worst[1], in)
		if i == 0 {
			bare = worst[0]
		} else if worst[0]-bare > 500 {
			t.Errorf("%s, %s: %d MB more than without llm_cache", g.name, site, worst[0]-bare)
		}
	}
	t.Logf("%-28s %9d %s", g.name, sent>>10, row.String())
}

// measured returns by how many MB the memory of the process grew while f ran, at its
// peak, and how much processor time it took, in milliseconds.
func measured(f func()) (mb, ms int64) {
	if *hostileSize > 8 {
		debug.FreeOSMemory() // what was before shall not show
	}
	stop, peak := make(chan struct{}), make(chan int64)
	from := memory()
	go func() {
		most := from
		for {
			select {
			case <-stop:
				peak <- most
				return
			case <-time.After(time.Millisecond):
				most = max(most, memory())
			}
		}
	}()
	before := processorTime()
	f()
	ms = (processorTime() - before).Milliseconds()
	close(stop)
	return (<-peak - from) >> 20, ms
}

func memory() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() - s[1].Value.Uint64() - s[2].Value.Uint64())
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// brackets is how many of them a test is about. Six million overflow the stack of a
// reader that recurses; in short tests so many overflow a smaller one.
func brackets() (n int, restore func()) {
	if !testing.Short() {
		return 6_000_000, func() {}
	}
	before := debug.SetMaxStack(32 << 20)
	return 1_000_000, func() { debug.SetMaxStack(before) }
}

// TestBracketsInRequests goes where a recursive reader of JSON ends the process: many
// brackets in what a tool was asked and said.
func TestBracketsInRequests(t *testing.T) {
	n, restore := brackets()
	defer restore()
	h := newHostility(t)
	for i := range dialects {
		d := &dialects[i]
		for _, site := range []string{"native", "hosted", "box"} {
			h.try(t, site, d, "brackets in an input", asInput(bracketsIn(`{"output":`))(t, d, n), "")
			h.try(t, site, d, "brackets in a result", part("RESULT", bracketsIn(`{"output":`))(t, d, n), "")
		}
	}
}

// bracketAnswer is an answer that calls a tool with a text that looks like JSON, in one
// piece and streamed.
func bracketAnswer(format string, n int) (whole, stream string) {
	text := `{"output":` + strings.Repeat("[", n)
	arguments, deep := quoted(text), text+strings.Repeat("]", n)+"}"
	switch format {
	case "anthropic":
		whole = `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"tool_use","id":"toolu_1","name":"Read","input":` + deep + `}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":5}}`
		stream = events[0] +
			"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"Read\",\"input\":{}}}\n\n" +
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":" + arguments + "}}\n\n" +
			strings.Join(events[3:], "")
	case "openai_chat":
		call := `{"index":0,"id":"call_1","type":"function","function":{"name":"Read","arguments":` + arguments + `}}`
		whole = `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[` + call + `]},"finish_reason":"tool_calls"}]}`
		stream = `data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[` + call + `]}}]}` + "\n\n" +
			`data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n"
	case "openai_responses":
		item := func(arguments string) string {
			return `{"type":"function_call","id":"fc_1","call_id":"call_1","name":"Read","arguments":` + arguments + `}`
		}
		whole = `{"id":"resp_1","object":"response","status":"completed","model":"m","output":[` + item(arguments) + `],"usage":{"input_tokens":3,"output_tokens":5,"total_tokens":8}}`
		for _, e := range []string{
			`{"type":"response.created","response":{"id":"resp_1","object":"response","status":"in_progress","model":"m","output":[]}}`,
			`{"type":"response.output_item.added","output_index":0,"item":` + item(`""`) + `}`,
			`{"type":"response.function_call_arguments.delta","output_index":0,"item_id":"fc_1","delta":` + arguments + `}`,
			`{"type":"response.output_item.done","output_index":0,"item":` + item(arguments) + `}`,
			`{"type":"response.completed","response":` + whole + `}`,
		} {
			kind, _, _ := strings.Cut(e[len(`{"type":"`):], `"`)
			stream += "event: " + kind + "\ndata: " + e + "\n\n"
		}
	case "gemini":
		whole = `{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"Read","args":` + deep + `}}]},"finishReason":"STOP"}]}`
		stream = "data: " + whole + "\n\n"
	}
	return whole, stream
}

// TestBracketsInAnswers: the answers of each format go to the clients of each.
func TestBracketsInAnswers(t *testing.T) {
	n, restore := brackets()
	defer restore()
	formats := []string{"anthropic", "openai_chat", "openai_responses", "gemini"}
	for _, format := range formats {
		whole, stream := bracketAnswer(format, n)
		u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, _ int) {
			if r.Header.Get("X-Stream") == "" {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, whole)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, stream)
		})
		p := start(t, "handle_path /eager/* {\n llm_cache {\n policy eager\n upstream {\n format "+format+"\n}\n}\nreverse_proxy "+u.Listener.Addr().String()+"\n}\n"+
			"handle_path /held/* {\n llm_cache {\n buffer_tool_calls on\n upstream {\n format "+format+"\n}\n}\nreverse_proxy "+u.Listener.Addr().String()+"\n}")
		for i := range dialects {
			d := &dialects[i]
			for _, site := range []string{"/eager", "/held"} {
				for _, streamed := range []string{"", "1"} {
					body, path, want := d.say("CONTENT", `"hi"`), site+d.path, whole
					if streamed != "" {
						want = stream
						path = strings.Replace(path, ":generateContent", ":streamGenerateContent?alt=sse", 1)
						if d.name != "gemini" {
							body = `{"stream":true,` + body[1:]
						}
					}
					res := p.post(path, body, "X-Stream", streamed)
					got, err := io.ReadAll(res.Body)
					if err != nil || len(got) == 0 {
						t.Errorf("%s to %s%s, streamed %q: status %d, %d bytes, %v", format, d.name, site, streamed, res.StatusCode, len(got), err)
					}
					if format == map[string]string{"chat": "openai_chat", "responses": "openai_responses"}[d.name] || format == d.name {
						if site == "/eager" && string(got) != want {
							t.Errorf("%s%s, streamed %q: %d bytes of %d arrived as they were sent", format, site, streamed, len(got), len(want))
						}
					}
				}
			}
		}
	}
}

// TestNamesInHeaders: a client's names for members, which are listed in a header where they
// cannot be carried, break no line of it.
func TestNamesInHeaders(t *testing.T) {
	h := newHostility(t)
	const evil = `"a\r\nX-Evil: yes\r\n\r\n\u0000\u0085é":1`
	for i := range dialects {
		d := &dialects[i]
		body := d.say("CONTENT", `"hi"`)
		body = "{" + evil + "," + strings.NewReplacer(`{"role":"user",`, `{"role":"user",`+evil+`,`, `{"name":"Read",`, `{"name":"Read",`+evil+`,`).Replace(body[1:])
		for _, site := range []string{"native", "hosted", "box"} {
			res := h.post("/"+site+d.path, body, "X-Session-Id", "a\tb", "User-Agent", "x\ty")
			answer := read(t, res)
			if res.StatusCode != http.StatusOK || res.Header.Get("X-Evil") != "" || strings.Contains(answer, "X-Evil") {
				t.Errorf("%s, %s: status %d, %v, %s", d.name, site, res.StatusCode, res.Header, answer)
			}
			for name, values := range res.Header {
				if v := strings.Join(values, ""); strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r > '~' }) {
					t.Errorf("%s, %s: %s is %q", d.name, site, name, v)
				}
			}
			dropped := res.Header.Get("X-Llm-Cache-Dropped")
			if translated := site == "hosted" && d.own == "" || site == "box" && d.name != "chat"; translated && !strings.Contains(dropped, "a??X-Evil??yes") {
				t.Errorf("%s, %s: dropped %q", d.name, site, dropped)
			}
		}
	}
	var text string
	h.adminDo(http.MethodGet, "/metrics", &text)
	if strings.Contains(text, "Evil") {
		t.Error("a client's name is a label of a metric")
	}
}
