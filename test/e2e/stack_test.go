// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/caddy"
)

// stack is a Caddy with llm_cache before another Caddy that simulates the model.
type stack struct {
	*caddy.Process
	model     *caddy.Process
	url       string // address of llm_cache for clients
	modelAddr string
	dir       string
	config    string
	// resends is the expected number of turns that are sent again without their edits.
	resends int
	socket  bool // see setup
	// repeated holds the sessions of requests that were retried after a reset.
	repeated sync.Map
	// clients and upstream check the traffic on both sides, unless setup.unwatched.
	clients, upstream *witness
}

// setup configures a stack.
type setup struct {
	// cache and model are options of llm_cache and of llm_cache_simulator.
	cache, model string
	// script is the model's script.
	script []step
	// audit records every turn, see records.
	audit bool
	// upstream is the address of a real model instead of the simulated one.
	upstream string
	// unwatched omits the witnesses, for tests that measure or kill.
	unwatched bool
	// socket says that the client uses a WebSocket, which the witness cannot read.
	socket bool
	// manner changes the traffic of the simulated model, see behave.
	manner func(*httputil.ReverseProxy, http.Handler) http.Handler
}

// startStack starts a stack, which is stopped when the test ends.
func startStack(t *testing.T, o setup) *stack {
	t.Helper()
	needCaddy(t)
	addrs, err := caddy.FreeAddrs(4)
	if err != nil {
		t.Fatal(err)
	}
	s := &stack{url: "http://" + addrs[1], modelAddr: addrs[3], dir: t.TempDir(), socket: o.socket}
	if o.upstream != "" {
		s.modelAddr = o.upstream
	}
	if o.manner != nil {
		s.modelAddr = behave(t, addrs[3], o.manner)
	}
	behind := s.modelAddr
	if !o.unwatched {
		s.clients, s.upstream = startWitness(t, addrs[1]), startWitness(t, s.modelAddr)
		s.url, behind = "http://"+s.clients.addr, s.upstream.addr
		// The simulated model's responses are checked, too, unless the script makes them faulty.
		sound := o.upstream == "" && !slices.ContainsFunc(o.script, func(s step) bool { return s.Clean })
		t.Cleanup(func() {
			if o.socket { // the client's own faults are tolerated
				s.upstream.work.Wait()
				s.clients.requests = s.upstream.requests
			}
			s.upstream.passes(t, s.clients, sound)
		})
	}
	s.config = site(addrs[0], addrs[1], "front", "llm_cache {\nheaders full\n"+o.cache+"\n}\nreverse_proxy "+behind)
	if o.audit {
		s.config = strings.Replace(s.config, "auto_https off",
			"auto_https off\n\tllm_cache {\n\t\taudit jsonl {\n\t\t\toutput file ../audit.jsonl\n\t\t\tinterval "+
				"100ms\n\t\t}\n\t}", 1)
	}
	s.Process = s.start(t, "front", addrs[0], s.config)
	if o.upstream != "" {
		return s
	}
	script, err := json.Marshal(o.script)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "script.json"), script, 0o600); err != nil {
		t.Fatal(err)
	}
	s.model = s.start(t, "model", addrs[2], site(addrs[2], addrs[3], "model", "llm_cache_simulator ../script.json {\n"+
		o.model+"\n}"))
	return s
}

// site returns a Caddyfile with one site and an access log.
func site(admin, addr, name, directives string) string {
	return fmt.Sprintf(`{
	admin %s
	persist_config off
	auto_https off
	log {
		level WARN
	}
}
http://%s {
	bind 127.0.0.1
	log {
		output file ../%s.log
	}
	%s
}
`, admin, addr, name, directives)
}

func (s *stack) start(t *testing.T, name, admin, config string, env ...string) *caddy.Process {
	t.Helper()
	dir := filepath.Join(s.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	p, err := caddy.Start(ctx, binary, dir, admin, config, env...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if t.Failed() {
			t.Logf("the log of %s ends with\n%s", name, p.LogTail())
		}
	})
	return p
}

// entry is a line of an access log.
type entry struct {
	Status  int `json:"status"`
	Request struct {
		Method string `json:"method"`
		URI    string `json:"uri"`
	} `json:"request"`
	Answer http.Header `json:"resp_headers"`
}

// models reports whether the request was for a model.
func (e *entry) models() bool {
	path, _, _ := strings.Cut(e.Request.URI, "?")
	if e.Request.Method != http.MethodPost {
		return false
	}
	for _, end := range []string{
		"/v1/messages", "/v1/chat/completions", "/v1/responses", "enerateContent",
		"/interactions", "awPredict", "/invoke", "/invoke-with-response-stream",
	} {
		if strings.HasSuffix(path, end) && !strings.HasSuffix(path, "/count-tokens:rawPredict") {
			return true
		}
	}
	return false
}

// number returns a response header as a number.
func (e *entry) number(t *testing.T, header string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(e.Answer.Get(header), 64)
	if err != nil {
		t.Errorf("%s: %v", header, err)
	}
	return n
}

// access returns the requests for a model in an access log.
func (s *stack) access(t *testing.T, name string) (all []entry) {
	t.Helper()
	f, err := os.Open(filepath.Join(s.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if e.models() {
			all = append(all, e)
		} else if e.Status >= 400 {
			t.Errorf("%s: %s %s: %d", name, e.Request.Method, e.Request.URI, e.Status)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return all
}

// session is the admin endpoint's description of a session.
type session struct {
	ID            string `json:"id"`
	Conversations []struct {
		Model    string         `json:"model"`
		Requests int            `json:"requests"`
		Frozen   bool           `json:"frozen"`
		Ledger   map[string]int `json:"ledger"`
		Total    struct {
			Read int64 `json:"read"`
		} `json:"total_usage"`
	} `json:"conversations"`
}

// requests returns the number of requests in all conversations of the session.
func (s *session) requests() (n int) {
	for _, l := range s.Conversations {
		n += l.Requests
	}
	return n
}

// sessions reads all pages.
func (s *stack) sessions(ctx context.Context) (all []session, err error) {
	for after := ""; ; {
		var page struct {
			Sessions []session `json:"sessions"`
			Next     string    `json:"next"`
		}
		if err := s.Get(ctx, "/llm_cache/sessions?limit=1000"+after, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Sessions...)
		if page.Next == "" {
			return all, nil
		}
		after = "&after=" + page.Next
	}
}

// metric returns the sum of a metric over its labels.
func (s *stack) metric(t *testing.T, name string) (sum float64) {
	t.Helper()
	resp, err := http.Get("http://" + s.Admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || (rest[0] != ' ' && rest[0] != '{') {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' '):]), 64)
		if err != nil {
			t.Fatalf("metric %s: %v", name, err)
		}
		sum += n
	}
	return sum
}

// until waits for a condition.
func (s *stack) until(t *testing.T, what string, happens func() bool) {
	t.Helper()
	for range 2400 {
		if happens() {
			return
		}
		time.Sleep(25 * time.Millisecond)
	}
	t.Fatalf("waited in vain: %s", what)
}

// inFlight returns the number of requests in progress at the upstream.
func (s *stack) inFlight(t *testing.T) (n int) {
	t.Helper()
	var list []struct {
		Requests int `json:"num_requests"`
	}
	if err := s.Get(t.Context(), "/reverse_proxy/upstreams", &list); err != nil {
		t.Fatal(err)
	}
	for _, u := range list {
		n += u.Requests
	}
	return n
}

// remembered returns the number of requests that ended well, of all sessions.
func (s *stack) remembered(t *testing.T) (n int) {
	t.Helper()
	list, err := s.sessions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		n += list[i].requests()
	}
	return n
}

// wait waits until the test's traffic is recorded everywhere: that many sessions, with all
// requests of the front's log. Responses reach clients before they are counted.
func (s *stack) wait(t *testing.T, sessions int) ([]session, []entry) {
	t.Helper()
	var (
		list    []session
		entries []entry
		err     error
	)
	for range 200 {
		entries = s.access(t, "front.log")
		if list, err = s.sessions(t.Context()); err != nil {
			t.Fatal(err)
		}
		n := 0
		for i := range list {
			n += list[i].requests()
		}
		if len(list) == sessions && n == len(entries) && len(entries) == len(s.access(t, "model.log")) {
			return list, entries
		}
		time.Sleep(25 * time.Millisecond)
	}
	t.Fatalf("want %d sessions that count %d requests, all of which reached the model (%d did), got %+v", sessions,
		len(entries), len(s.access(t, "model.log")), list)
	return nil, nil
}

// clean checks that no request failed, was sent twice, or was forwarded unmodified after a failure.
func (s *stack) clean(t *testing.T) {
	t.Helper()
	for _, log := range []string{"front.log", "model.log"} {
		for i, e := range s.access(t, log) {
			if e.Status != http.StatusOK {
				t.Errorf("%s: request %d: status %d", log, i, e.Status)
			}
		}
	}
	for _, name := range []string{"caddy_llm_cache_fail_open_total", "caddy_llm_cache_resends_total"} {
		if n := s.metric(t, name); n != 0 {
			t.Errorf("%s is %v", name, n)
		}
	}
	for _, p := range []*caddy.Process{s.Process, s.model} {
		b, err := os.ReadFile(p.LogFile)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			// The admin endpoint logs requests that a test expects to fail.
			if strings.Contains(line, "panic") || strings.Contains(line, `"level":"error"`) &&
				!strings.Contains(line, `"logger":"admin.api"`) {
				t.Errorf("Caddy's log: %s", line)
			}
		}
	}
}
