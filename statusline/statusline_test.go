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

package statusline

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestLine(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	lineage := func(started, rest string) string {
		return `{"requests":3,"started":"2026-01-01T` + started + `Z"` + rest + `}`
	}
	page := func(lineages ...string) string {
		return `{"sessions":[{"id":"a","lineages":[` + strings.Join(lineages, ",") + `]}],"total":1}`
	}
	const full = `,"ttl_seconds":300,"warm":true,"total_usage":{"uncached":10,"read":90},"cost":{"units":60,"client_units":100,"usd":1.5,"client_usd":2.5},"last_cache_break":"expired"`
	for _, c := range []struct{ answer, want string }{
		{page(lineage("11:58:41", full), lineage("11:00:00", "")), "cache 3:41 · read 90 % · saved 40 % $1.00 · last miss: expired"},
		{page(lineage("11:50:00", `,"ttl_seconds":300`)), "cache cold"},
		{page(lineage("11:50:00", `,"ttl_seconds":300,"warm":true,"warmed":"2026-01-01T11:59:00Z"`)), "cache 4:00"},
		{page(lineage("11:00:00", `,"warm":true,"cost":{"units":80,"client_units":100}`)), "cache warm · saved 20 %"},
		{page(), "llm_cache: no conversation yet"},
		{`{"sessions":[],"total":0}`, "llm_cache: no conversation yet"},
		{`nonsense`, "llm_cache: no answer from ADMIN"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/llm_cache/sessions":
				_, _ = io.WriteString(w, c.answer)
			case "/llm_cache/sessions/a":
				_, _ = io.WriteString(w, `{"id":"a","lineages":[`+lineage("11:59:00", full)+`]}`)
			default:
				w.WriteHeader(http.StatusNotFound)
			}
		}))
		admin := s.Listener.Addr().String()
		if got := strings.ReplaceAll(Line(t.Context(), admin, "", now), admin, "ADMIN"); got != c.want {
			t.Errorf("%s:\n%q, want %q", c.answer, got, c.want)
		}
		if got := Line(t.Context(), admin, "a", now); !strings.HasPrefix(got, "cache 4:00") {
			t.Errorf("of a session: %q", got)
		}
		if got := Line(t.Context(), admin, "b", now); got != "llm_cache: no conversation yet" {
			t.Errorf("of none: %q", got)
		}
		s.Close()
		if got := Line(t.Context(), admin, "", now); got != "llm_cache: no answer from "+admin {
			t.Errorf("without a server: %q", got)
		}
	}
}
