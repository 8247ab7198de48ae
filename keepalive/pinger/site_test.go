// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pinger_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit/caddystop"
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive/pinger"
)

const secret = "sk-ant-dummy-key-of-a-test"

// kept is a Caddy with a site that sends pings, and its upstream.
type kept struct {
	t    *testing.T
	host string // the model of the requests: another host is another conversation
	addr string // the current address, see load
	log  string
	up   *httptest.Server
	dir  string

	outer   string // handlers in front of the site's handler
	reads   bool   // turns read files
	session string
	key     string
	hook    func() // called while a request is at the upstream
	brief   string // X-Llm-Cache of the last response

	mu     sync.Mutex
	got    []*http.Request
	bodies []string
	status int
	usage  string
}

func newKept(t *testing.T) *kept {
	dir := t.TempDir()
	k := &kept{
		t: t, key: secret, log: filepath.Join(dir, "log"), dir: dir, status: http.StatusOK,
		usage: `{"input_tokens":3,"cache_read_input_tokens":60000,"output_tokens":5}`,
	}
	l, err := net.Listen("tcp", testkit.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	k.listen(l)
	k.host = testkit.FreeAddress(t)
	k.addr = k.host
	t.Cleanup(func() { caddystop.Stop(t) })
	return k
}

// listen starts the upstream.
func (k *kept) listen(l net.Listener) {
	k.up = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if k.hook != nil {
			k.hook()
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.got, k.bodies = append(k.got, r), append(k.bodies, string(body))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(k.status)
		fmt.Fprintf(w,
			`{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-6","content":[{"type":"text",`+
				`"text":"Shall I?"}],"stop_reason":"end_turn","usage":%s}`, k.usage)
	}))
	_ = k.up.Listener.Close()
	k.up.Listener = l
	k.up.Start()
	k.t.Cleanup(k.up.Close)
}

// load runs a site with these options of llm_cache, and headers that reverse_proxy sets. Each site
// has an address of its own: for a while after a reload, the old configuration listens as well.
func (k *kept) load(options, headers string) {
	k.t.Helper()
	k.addr = testkit.FreeAddress(k.t)
	if err := caddy.Load([]byte(k.config(options, headers)), true); err != nil {
		k.t.Fatal(err)
	}
}

func (k *kept) config(options, headers string) string {
	return fmt.Sprintf(`{
	"admin": {"disabled": true, "config": {"persist": false}},
	"logging": {"logs": {"default": {"writer": {"output": "file", "filename": %q}}}},
	"apps": {"http": {"grace_period": "100ms", "servers": {"srv0": {
		"listen": [%q], "automatic_https": {"disable": true}, "logs": {},
		"routes": [{"handle": [%s
			{"handler": "llm_cache", "policy": "observe"%s},
			{"handler": "reverse_proxy", "upstreams": [{"dial": %q}], "headers": {"request": {"set": {%s}}}}
		]}]
	}}}}
}`, k.log, k.addr, k.outer, options, k.up.Listener.Addr().String(), headers)
}

const keeping = `, "keepalive": {"max_loss": 10}`

// ask sends a request after so many turns.
func (k *kept) ask(turns int) string {
	k.t.Helper()
	var b strings.Builder
	for i := range turns {
		if k.reads {
			fmt.Fprintf(&b,
				`,{"role":"assistant","content":[{"type":"tool_use","id":"t%d","name":"Read",`+
					`"input":{"file_path":"/src/%d.go"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t%d",`+
					`"content":"%s"}]}`,
				i, i, i, strings.Repeat(fmt.Sprintf("line of file %d: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n", i), 40))
		}
		fmt.Fprintf(&b, answered, fmt.Sprintf("Yes, %d.", i))
	}
	return k.send(b.String())
}

// answered is a response and the client's reaction to it.
const (
	answered    = `,{"role":"assistant","content":"Shall I?"}` + userMessage
	userMessage = `,{"role":"user","content":[{"type":"text","text":%q,"cache_control":{"type":"ephemeral"}}]}`
)

// send sends a request with these messages after the first.
func (k *kept) send(messages string) string {
	k.t.Helper()
	body := `{"model":"claude-sonnet-4-6", "max_tokens":1000,"tools":[{"name":"Read",` +
		`"input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"Go on."}` + messages + `],"stream":false}`
	r, _ := http.NewRequest(http.MethodPost, "http://"+k.addr+"/v1/messages", strings.NewReader(body))
	r.Host = k.host
	r.Header.Set("X-Api-Key", k.key)
	r.Header.Set("Authorization", "Bearer "+k.key)
	r.Header.Set("Anthropic-Beta", "some-beta")
	r.Header.Set("User-Agent", "claude-cli/2.1.332 (external, cli)")
	r.Header.Set("Content-Type", "application/json")
	if k.session != "" {
		r.Header.Set("X-Claude-Code-Session-Id", k.session)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		k.t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	res.Body.Close()
	k.brief = res.Header.Get("X-Llm-Cache")
	return body
}

// pings returns the received bodies with max_tokens 0.
func (k *kept) pings() (out []int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, b := range k.bodies {
		if strings.Contains(b, `"max_tokens":0`) {
			out = append(out, i)
		}
	}
	return out
}

func (k *kept) wantPings(n int, when string) {
	k.t.Helper()
	settled()
	if got := len(k.pings()); got != n {
		k.t.Fatalf("%s: %d pings in all, want %d; %+v", when, got, n, settled())
	}
}

const wait = 4*time.Minute + 46*time.Second

func TestPingsOfASite(t *testing.T) {
	k := newKept(t)
	k.load(keeping, "")
	k.ask(1)
	advance(wait)
	k.wantPings(0, "after one request, which has read nothing yet before")
	last := k.ask(2)
	advance(time.Minute)
	k.wantPings(0, "after a minute")
	advance(wait - time.Minute)
	k.wantPings(1, "near the end of the lifetime")
	i := k.pings()[0]
	if want := strings.Replace(last, `"max_tokens":1000`, `"max_tokens":0`, 1); k.bodies[i] != want {
		t.Errorf("the ping is\n%s\nwant\n%s", k.bodies[i], want)
	}
	if h := k.got[i].Header; h.Get("X-Api-Key") != secret || h.Get("Authorization") != "Bearer "+secret ||
		h.Get("Anthropic-Beta") != "some-beta" || h.Get("User-Agent") != "claude-cli/2.1.332 (external, cli) llm_cache/devel" {
		t.Errorf("the ping's headers are %v", h)
	}

	k.load(keeping, `"X-Way": ["new"]`)
	advance(wait)
	k.wantPings(2, "after a reload")
	if k.got[k.pings()[1]].Header.Get("X-Way") != "new" {
		t.Error("the ping went the old way after a reload")
	}
	k.ask(3)
	advance(time.Minute)
	k.wantPings(2, "after the client is back")
	if sum := settled().Sum; sum.Pings != 2 || sum.Cost != 2*(6000+3+25) && sum.Cost <= 0 || sum.Saved <= 0 {
		t.Errorf("the pings came to %+v", sum)
	}

	k.load("", "") // without keepalive
	advance(wait - time.Minute)
	k.wantPings(2, "at a site that does not ask for pings")

	log, err := os.ReadFile(k.log)
	if err != nil || len(log) == 0 {
		t.Fatalf("the log: %d bytes, %v", len(log), err)
	}
	if n := strings.Count(string(log), `"msg":"handled request"`); n != 3 {
		t.Errorf("%d lines in the access log, want those of the 3 requests", n)
	}
	for line := range strings.Lines(string(log)) {
		// Caddy itself writes X-Api-Key of clients' requests into the access log.
		if !strings.Contains(line, `"msg":"handled request"`) && strings.Contains(line, secret) {
			t.Errorf("a key in the log: %s", line)
		}
	}
}

// Pings have the upstream's key where the configuration has one, not the client's, and no log has it.
// TestNoPingsOfTheControlGroup: sessions held out are not pinged, the others are.
func TestNoPingsOfTheControlGroup(t *testing.T) {
	k := newKept(t)
	k.load(keeping+`, "holdout": 0.5`, "")
	held := map[string]bool{}
	for i := range 16 {
		k.session = fmt.Sprint("session-", i)
		k.ask(1)
		k.ask(2)
		held[k.session] = strings.Contains(k.brief, "; holdout")
	}
	advance(wait)
	settled()
	pinged := map[string]bool{}
	for _, i := range k.pings() {
		pinged[k.got[i].Header.Get("X-Claude-Code-Session-Id")] = true
	}
	if len(pinged) == 0 || len(pinged) == len(held) {
		t.Errorf("got pings in %d of %d sessions, want some", len(pinged), len(held))
	}
	for name, held := range held {
		if pinged[name] == held {
			t.Errorf("%s: got pinged %t, held out %t", name, pinged[name], held)
		}
	}
}

func TestPingsWithTheUpstreamsKey(t *testing.T) {
	const key = "sk-of-the-upstream"
	t.Setenv("LLM_CACHE_TEST_UPSTREAM_KEY", key)
	k := newKept(t)
	k.load(keeping+`, "upstream": {"preset": "anthropic", "key": "{env.LLM_CACHE_TEST_UPSTREAM_KEY}"}`, "")
	k.ask(1)
	k.ask(2)
	advance(wait)
	k.wantPings(1, "near the end of the lifetime")
	for i, r := range k.got {
		if r.Header.Get("X-Api-Key") != key || len(r.Header["X-Api-Key"]) != 1 || r.Header["Authorization"] != nil {
			t.Errorf("request %d has the headers %v", i, r.Header)
		}
	}
	if log, err := os.ReadFile(k.log); err != nil || strings.Contains(string(log), key) {
		t.Errorf("the log has the key, or cannot be read: %v", err)
	}
}

// With two handlers in a row, one of which may be an edge, each pause is pinged once. The last
// handler that serves the request sends the ping, with the body that it sent.
func TestPingsOfTwoHandlers(t *testing.T) {
	const observe, eager, off = `"policy": "observe"`,
		`"policy": "eager", "zones": {"frozen": 0, "hot": 1, "min_messages": 0}`, `"policy": "off"`
	for name, c := range map[string]struct {
		outer, inner string
		want         int
	}{
		"both":                    {observe + keeping, keeping, 1},
		"the first":               {observe + keeping, "", 1},
		"the second":              {observe, keeping, 1},
		"neither":                 {observe, "", 0},
		"behind one that is off":  {off, keeping, 1},
		"before one that edits":   {eager + keeping, keeping, 1},
		"only one that edits":     {eager + keeping, "", 1},
		"behind one that edits":   {eager, keeping, 1},
		"behind one that is away": {"", keeping, 1},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKept(t)
			k.reads = true
			if c.outer != "" {
				k.outer = `{"handler": "llm_cache", ` + c.outer + `},`
			}
			k.load(c.inner, "")
			k.ask(7)
			k.ask(8)
			if edits := strings.Contains(c.outer, "eager"); edits != strings.Contains(k.bodies[1], "[Compacted: ") {
				t.Fatalf("upstream came %s", k.bodies[1])
			}
			want := strings.Replace(k.bodies[1], `"max_tokens":1000`, `"max_tokens":0`, 1)
			advance(wait)
			k.wantPings(c.want, "near the end of the lifetime")
			k.load(c.inner, "")
			advance(wait)
			k.wantPings(2*c.want, "after a reload")
			for _, i := range k.pings() {
				if k.bodies[i] != want {
					t.Errorf("the ping is\n%s\nwant\n%s", k.bodies[i], want)
				}
			}
			k.ask(9)
			if sum := settled().Sum; c.want > 0 && sum.Saved <= 0 {
				t.Errorf("the pings came to %+v", sum)
			}
			advance(wait)
			k.wantPings(3*c.want, "after the client was back")
			k.ask(10)
			n := len(k.bodies)
			k.outer = ""
			k.load(c.inner, "")
			advance(wait)
			settled()
			k.mu.Lock()
			defer k.mu.Unlock()
			for _, body := range k.bodies[n:] {
				if body != "" && !strings.Contains(body, `"max_tokens":0`) {
					t.Errorf("without the one in front came %s", body)
				}
			}
		})
	}
}

func TestPingsStop(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		usage  string
	}{
		"a write":      {http.StatusOK, `{"input_tokens":3,"cache_creation_input_tokens":60000,"output_tokens":0}`},
		"unauthorized": {http.StatusUnauthorized, `{}`},
		"rate limited": {http.StatusTooManyRequests, `{}`},
		"down":         {http.StatusBadGateway, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKept(t)
			k.load(keeping, "")
			k.ask(1)
			k.ask(2)
			k.mu.Lock()
			k.status, k.usage = c.status, c.usage
			k.mu.Unlock()
			for range 20 {
				advance(wait)
				settled()
			}
			k.wantPings(1, "after an hour and a half")
		})
	}
}

// A side request replaced by a rewind gets no more pings, with and without a ping for the rewind.
func TestNoPingOfWhatGaveWay(t *testing.T) {
	k := newKept(t)
	k.load(keeping, "")
	k.ask(2)
	k.usage = `{"input_tokens":3,"cache_read_input_tokens":90000,"output_tokens":5}`
	for range 2 {
		k.send(fmt.Sprintf(userMessage, "Find a title."))
	}
	k.usage = `{"input_tokens":3,"cache_read_input_tokens":30000,"output_tokens":5}`
	k.send(fmt.Sprintf(answered, "No."))
	advance(wait)
	k.wantPings(0, "after a rewind")
}

// The process ends, or the machine slept for a day: no ping is sent. A killed process leaves no
// state behind.
func TestNoPingAfterTheEnd(t *testing.T) {
	k := newKept(t)
	k.load(keeping, "")
	k.ask(1)
	k.ask(2)
	advance(24 * time.Hour)
	k.wantPings(0, "after a day without a look at the clock")
	k.ask(3)
	caddystop.Stop(t)
	advance(wait)
	k.wantPings(0, "after the stop")
	k.load(keeping, "")
	advance(wait)
	k.wantPings(0, "in the next process")
}

// The calendar jumps by a day in either direction: conversations idle before get no ping, and
// conversations idle after it get one in time.
func TestCalendarIsSet(t *testing.T) {
	for _, jump := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
		k := newKept(t)
		k.load(keeping, "")
		k.ask(1)
		k.ask(2)
		pinger.SetCalendar(jump)
		for range 30 {
			advance(10 * time.Second)
			settled()
		}
		k.wantPings(0, "after the calendar was set by "+jump.String())
		k.ask(3)
		advance(wait)
		k.wantPings(1, "for what has fallen idle since")
		caddystop.Stop(t)
	}
}

// The upstream is down for an hour: each conversation is tried once, and there is no burst of pings
// when it is back.
func TestUpstreamDownForAnHour(t *testing.T) {
	const conversations = 8
	k := newKept(t)
	k.load(keeping, "")
	for i := range conversations {
		k.session = fmt.Sprint("s", i)
		k.ask(1)
		k.ask(2)
	}
	before := settled().Sum.Pings
	address := k.up.Listener.Addr().String()
	k.up.Close()
	for at := time.Duration(0); at < time.Hour; at += 5 * time.Second {
		advance(5 * time.Second)
		settled()
	}
	if n := settled().Sum.Pings - before; n != conversations {
		t.Errorf("%d pings were tried in the hour, want one for each of %d conversations", n, conversations)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	k.listen(l)
	for range 120 {
		advance(5 * time.Second)
		settled()
	}
	k.wantPings(0, "once the upstream is back")
	k.ask(3)
	advance(wait)
	k.wantPings(1, "for the one conversation that has gone on")
}
