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

package handler

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-llm-cache/caddy-llm-cache/app"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/settings"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// TestWarnings: one line for each kind of client and reason, none with content, and
// never more than the bound.
func TestWarnings(t *testing.T) {
	core, logs := observer.New(zapcore.WarnLevel)
	h := attached(t, settings.Options{})
	h.site.notes.log = zap.New(core)
	send := func(agent, reason string) http.Header {
		r := httptest.NewRequest(http.MethodPost, "/v1/messages", nil)
		r.Header.Set("User-Agent", agent)
		w := httptest.NewRecorder()
		h.site.notes.pass(w, r, wire.Anthropic, bypass{reason: reason, err: wire.ErrSyntax})
		return w.Header()
	}
	for range 3 {
		if got := send("Agent/1.0 (linux; secret)", reasonParse).Get(headerBypass); got != reasonParse {
			t.Errorf("the header says %q", got)
		}
	}
	send("Agent/1.0 (linux)", reasonDecode)
	send("Agent/1.1", reasonParse)
	if n := logs.Len(); n != 3 {
		t.Errorf("%d warnings, want 3", n)
	}
	for _, e := range logs.All() {
		if c := e.ContextMap()["client"].(string); !strings.HasPrefix(c, "Agent/1.") || strings.Contains(c, "secret") {
			t.Errorf("the client is called %q", c)
		}
	}
	for i := range 10 * app.MostStrangers {
		send(fmt.Sprint("Agent/", i, strings.Repeat("x", 1000)), reasonParse)
	}
	if n := logs.Len(); n > app.MostStrangers {
		t.Errorf("%d warnings, want %d at most", n, app.MostStrangers)
	}
}
