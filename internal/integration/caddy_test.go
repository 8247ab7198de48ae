// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-llm-cache/caddy-llm-cache"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit/caddytest"
)

// The tests of this package run Caddys in this process, in front of upstreams of their own.
// Tests in parallel do not read counters of metrics, which are the process's.

func TestMain(m *testing.M) { testkit.MainInHome(m) }

// proxy is a running Caddy.
type proxy struct {
	t      testing.TB
	host   string // what clients ask for: another is another conversation
	addr   string // where it is now, see reload
	admin  string
	client *http.Client
	caddy  *caddytest.Caddy
}

// start runs Caddy with a site of these directives until the test ends.
func start(t *testing.T, site string) *proxy {
	t.Helper()
	p := &proxy{
		t: t, caddy: caddytest.New(t),
		client: &http.Client{Transport: asksAll{&http.Transport{DisableCompression: true, DisableKeepAlives: true}}},
	}
	p.reload(site)
	p.host = p.addr
	return p
}

// config is the JSON of a site of these directives, behind other blocks if need be.
func (p *proxy) config(site string, others ...string) []byte {
	p.t.Helper()
	caddyfile := fmt.Sprintf(`{
	admin %s
	persist_config off
	auto_https off
	grace_period 100ms
	log {
		output discard
	}
}
%s
http://%s {
%s
}
`, p.admin, strings.Join(others, "\n"), p.addr, site)
	return p.adapt(caddyfile)
}

// adapt is the JSON of a Caddyfile.
func (p *proxy) adapt(caddyfile string) []byte {
	p.t.Helper()
	cfg, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return cfg
}

// load runs a configuration.
func (p *proxy) load(cfg []byte) {
	p.t.Helper()
	if err := p.caddy.Load(cfg); err != nil {
		p.t.Fatal(err)
	}
}

// reload runs another site. It is at addresses of its own: for a while after a
// reload the configuration before listens as well, and may get what is meant for
// the new one.
func (p *proxy) reload(site string) {
	p.t.Helper()
	p.move()
	p.load(p.config(site))
}

// move has the next configuration listen elsewhere.
func (p *proxy) move() { p.addr, p.admin = testkit.FreeAddress(p.t), testkit.FreeAddress(p.t) }

// asksAll sends requests that ask for all headers, unless they say how many they want.
type asksAll struct{ http.RoundTripper }

func (a asksAll) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("X-Llm-Cache-Headers") == "" {
		r = r.Clone(r.Context())
		r.Header.Set("X-Llm-Cache-Headers", "full")
	}
	return a.RoundTripper.RoundTrip(r)
}

// response is an answer whose body is closed when the test ends.
type response struct{ *http.Response }

// post sends a body to an endpoint, with headers given as name, value pairs.
// The client retries what meets a listener in the middle of a reload.
func (p *proxy) post(path, body string, headers ...string) response {
	p.t.Helper()
	for try := 0; ; try++ {
		req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, "http://"+p.addr+path, strings.NewReader(body))
		if err != nil {
			p.t.Fatal(err)
		}
		req.Host = p.host
		req.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		res, err := p.client.Do(req)
		if err == nil {
			p.t.Cleanup(func() { _ = res.Body.Close() })
			return response{res}
		}
		if try == 200 {
			p.t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// adminDo calls the admin API and decodes its answer into v, if there is one.
// It retries what meets the endpoint in the middle of a reload.
func (p *proxy) adminDo(method, path string, v any) int {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, "http://"+p.admin+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	res, err := p.client.Do(req)
	for try := 0; err != nil && try < 200; try++ {
		time.Sleep(50 * time.Millisecond)
		res, err = p.client.Do(req)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	if s, ok := v.(*string); ok {
		*s = string(body)
	} else if v != nil {
		if err := json.Unmarshal(body, v); err != nil {
			p.t.Fatalf("%s: %v", body, err)
		}
	}
	return res.StatusCode
}

// report is what the tests read of the admin API.
type report struct {
	ID            string `json:"id"`
	Conversations []struct {
		Model    string `json:"model"`
		Requests int    `json:"requests"`
	} `json:"conversations"`
}

func (r report) requests() (n int) {
	for _, l := range r.Conversations {
		n += l.Requests
	}
	return n
}

func (p *proxy) sessions() []report {
	p.t.Helper()
	var list struct {
		Sessions []report `json:"sessions"`
	}
	if code := p.adminDo(http.MethodGet, "/llm_cache/sessions", &list); code != http.StatusOK {
		p.t.Fatalf("listing sessions: %d", code)
	}
	return list.Sessions
}

// metric returns the value of a metric line, 0 if there is none.
func (p *proxy) metric(line string) (value float64) {
	p.t.Helper()
	return p.sum(func(name string) bool { return name == line })
}

// sum adds the values of all metrics with a name, labels and all.
func (p *proxy) sum(counts func(name string) bool) (sum float64) {
	p.t.Helper()
	var text string
	p.adminDo(http.MethodGet, "/metrics", &text)
	for l := range strings.Lines(text) {
		at := strings.LastIndexByte(l, ' ')
		if strings.HasPrefix(l, "#") || at < 0 || !counts(l[:at]) {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(l[at:]), 64)
		if err != nil {
			p.t.Fatal(err)
		}
		sum += value
	}
	return sum
}

// received is a request as an upstream got it.
type received struct {
	method, path string
	header       http.Header
	length       int64
	body         string
}

// upstream records what it gets and answers as the test says.
type upstream struct {
	*httptest.Server
	mu  sync.Mutex
	got []received
}

func newUpstream(t testing.TB, answer func(w http.ResponseWriter, r *http.Request, n int)) *upstream {
	u := new(upstream)
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("upstream reading a body: %v", err)
		}
		u.mu.Lock()
		u.got = append(u.got, received{r.Method, r.URL.Path, r.Header.Clone(), r.ContentLength, string(body)})
		n := len(u.got)
		u.mu.Unlock()
		answer(w, r, n)
	}))
	t.Cleanup(u.Close)
	return u
}

func (u *upstream) requests() []received {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.got
}

func (u *upstream) last() received {
	got := u.requests()
	return got[len(got)-1]
}

const message = `{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-4-6",` +
	`"content":[{"type":"text","text":"Done."}],"stop_reason":"end_turn","usage":{"input_tokens":3,` +
	`"cache_creation_input_tokens":40,"cache_read_input_tokens":1234,"output_tokens":5}}`

// answerMessage answers by a whole message.
func answerMessage(w http.ResponseWriter, _ *http.Request, _ int) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, message)
}

// events are the events of a streamed message.
var events = []string{
	"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\"," +
		"\"role\":\"assistant\",\"model\":\"claude-opus-4-6\",\"content\":[],\"stop_reason\":null," +
		"\"usage\":{\"input_tokens\":3,\"cache_creation_input_tokens\":40,\"cache_read_input_tokens\":1234," +
		"\"output_tokens\":1}}}\n\n",
	"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0," +
		"\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
	"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0," +
		"\"delta\":{\"type\":\"text_delta\",\"text\":\"Done.\"}}\n\n",
	"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
	"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"," +
		"\"stop_sequence\":null},\"usage\":{\"output_tokens\":5}}\n\n",
	"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
}

// conversation is a request after so many tool turns, each with a result of
// several long lines.
func conversation(turns int, stream bool) string {
	var b strings.Builder
	fmt.Fprintf(&b,
		`{"model":"claude-opus-4-6","max_tokens":1000,"stream":%t,"system":"You are an agent.","messages":[{"role":"user",`+
			`"content":"Fix the build."}`, stream)
	for i := range turns {
		fmt.Fprintf(&b,
			`,{"role":"assistant","content":[{"type":"tool_use","id":"toolu_%d","name":"Read",`+
				`"input":{"file_path":"/src/file%d.go"}}]}`, i, i)
		result := strings.Repeat(fmt.Sprintf("line of file %d: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\\n", i), 40)
		fmt.Fprintf(&b, `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_%d","content":"%s"}]}`, i,
			result)
	}
	b.WriteString(`]}`)
	return b.String()
}

// eager is a site that edits all that it may.
func eager(u *upstream) string {
	return "llm_cache {\n policy eager\n zones {\n frozen 0\n hot 1\n min_messages 0\n }\n}\nreverse_proxy " +
		u.Listener.Addr().String()
}

func plain(u *upstream) string {
	return "llm_cache\nreverse_proxy " + u.Listener.Addr().String()
}

func read(t testing.TB, res response) string {
	t.Helper()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func compress(t *testing.T, body []byte, w func(io.Writer) io.WriteCloser) string {
	t.Helper()
	var b bytes.Buffer
	z := w(&b)
	if _, err := z.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
