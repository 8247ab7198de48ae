// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// record is the used part of an audit line.
type record struct {
	Kind           string `json:"kind"`
	Session        string `json:"session"`
	Conversation   int    `json:"conversation"`
	Client         string `json:"client"`
	Model          string `json:"model"`
	ClientFormat   string `json:"client_format"`
	UpstreamFormat string `json:"upstream_format"`
	OriginalTokens int64  `json:"original_tokens"`
	SentTokens     int64  `json:"sent_tokens"`
	Billed         struct {
		Uncached int64 `json:"uncached"`
		Write    int64 `json:"write_5m"`
		Read     int64 `json:"read"`
	} `json:"billed"`
	Status  int    `json:"status"`
	Outcome string `json:"outcome"`
	Resent  bool   `json:"resent"`
}

// records waits until every request that has come to the front, at least so many, is recorded:
// responses reach clients before they are counted.
func (s *stack) records(t *testing.T, least int) []record {
	t.Helper()
	var list []record
	for range 200 {
		list = s.recorded(t)
		if len(list) >= least && len(list) == s.arrived(t) {
			return list
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("%d records of %d requests", len(list), s.arrived(t))
	return nil
}

// arrived returns the number of requests at the front. Those on a socket are in no access log.
func (s *stack) arrived(t *testing.T) int {
	t.Helper()
	if s.socket {
		return int(s.metric(t, "caddy_llm_cache_websocket_requests_total"))
	}
	return len(s.access(t, "front.log"))
}

func (s *stack) recorded(t *testing.T) (list []record) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(s.dir, "audit.jsonl"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if !strings.HasSuffix(line, "\n") {
			break // it is being written
		}
		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		list = append(list, r)
	}
	return list
}

// turns returns the records of the conversation, without side requests, which must have ended well.
// It checks the numbers of response statuses, and that no edit was made in vain.
func (s *stack) turns(t *testing.T, statuses map[int]int) (turns []record) {
	t.Helper()
	got, n, resent := map[int]int{}, 0, 0
	for _, times := range statuses {
		n += times
	}
	for _, r := range s.records(t, n) {
		if r.Resent {
			resent++
		}
		if r.Kind == "turn" {
			turns = append(turns, r)
			got[r.Status]++
		} else if r.Outcome != "completed" {
			t.Errorf("side request: %+v", r)
		}
	}
	if !maps.Equal(got, statuses) {
		t.Fatalf("statuses %v, want %v: %+v", got, statuses, turns)
	}
	if n := s.metric(t, "caddy_llm_cache_fail_open_total"); n != 0 {
		t.Errorf("%v requests were left alone", n)
	}
	if n := s.metric(t, "caddy_llm_cache_resends_total"); resent != s.resends || n != float64(resent) {
		t.Errorf("%d turns were sent again without their edits, by the metric %v, want %d: %+v", resent, n, s.resends, turns)
	}
	return turns
}
