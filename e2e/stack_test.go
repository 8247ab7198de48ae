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
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/e2e/internal/caddy"
)

// stack is a Caddy with two sites: one with llm_cache that clients talk to, and
// behind it the simulated model.
type stack struct {
	*caddy.Process
	url    string // of the site that clients talk to
	dir    string
	config string
}

// startStack starts a stack whose llm_cache has the given options and whose
// model follows a script. It is stopped, and its logs are looked through, when
// the test ends.
func startStack(t *testing.T, options string, script []step) *stack {
	t.Helper()
	needCaddy(t)
	addrs, err := caddy.FreeAddrs(3)
	if err != nil {
		t.Fatal(err)
	}
	s := &stack{url: "http://" + addrs[1], dir: t.TempDir()}
	b, err := json.Marshal(script)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "script.json"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	s.config = fmt.Sprintf(`{
	admin %[1]s
	persist_config off
	auto_https off
	log {
		level WARN
	}
}
http://%[2]s {
	log {
		output file front.log
	}
	llm_cache {
		%[4]s
	}
	reverse_proxy %[3]s
}
http://%[3]s {
	log {
		output file model.log
	}
	llm_cache_simulator script.json
}
`, addrs[0], addrs[1], addrs[2], options)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if s.Process, err = caddy.Start(ctx, binary, s.dir, addrs[0], s.config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("Caddy's log ends with\n%s", s.LogTail())
		}
	})
	return s
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

// models tells whether the request asked a model for an answer.
func (e *entry) models() bool {
	path, _, _ := strings.Cut(e.Request.URI, "?")
	return e.Request.Method == http.MethodPost && (strings.HasSuffix(path, "/v1/messages") || strings.HasSuffix(path, "/v1/chat/completions"))
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

// access reads an access log, of which the part that asked a model is returned.
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

// session is what the admin endpoint tells of a session.
type session struct {
	ID       string `json:"id"`
	Lineages []struct {
		Model    string         `json:"model"`
		Requests int            `json:"requests"`
		Frozen   bool           `json:"frozen"`
		Ledger   map[string]int `json:"ledger"`
		Total    struct {
			Read int64 `json:"read"`
		} `json:"total_usage"`
	} `json:"lineages"`
}

// requests is the number of requests in all lineages of the session.
func (s *session) requests() (n int) {
	for _, l := range s.Lineages {
		n += l.Requests
	}
	return n
}

func (s *stack) sessions(ctx context.Context) ([]session, error) {
	var list struct {
		Sessions []session `json:"sessions"`
	}
	err := s.Get(ctx, "/llm_cache/sessions", &list)
	return list.Sessions, err
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

// settle waits until the traffic of the test has been written down everywhere:
// so many sessions, whose requests are all that the log of the front holds.
// Answers reach clients before they are counted.
func (s *stack) settle(t *testing.T, sessions int) ([]session, []entry) {
	t.Helper()
	var (
		list  []session
		front []entry
		err   error
	)
	for range 200 {
		front = s.access(t, "front.log")
		if list, err = s.sessions(t.Context()); err != nil {
			t.Fatal(err)
		}
		n := 0
		for i := range list {
			n += list[i].requests()
		}
		if len(list) == sessions && n == len(front) && len(front) == len(s.access(t, "model.log")) {
			return list, front
		}
		time.Sleep(25 * time.Millisecond)
	}
	t.Fatalf("want %d sessions that count %d requests, all of which reached the model (%d did), got %+v", sessions, len(front), len(s.access(t, "model.log")), list)
	return nil, nil
}

// clean checks that nothing went wrong on the way: no request failed, none was
// sent twice, and llm_cache never had to leave one alone.
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
	b, err := os.ReadFile(s.LogFile)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, `"level":"error"`) || strings.Contains(line, "panic") {
			t.Errorf("Caddy's log: %s", line)
		}
	}
}
