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

package upstream

import (
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

func TestProvidersOnly(t *testing.T) {
	for _, c := range []struct {
		format wire.Format
		body   string
		want   Unheld
	}{
		{wire.Anthropic, `{"model":"m","messages":[{"role":"user","content":"a \"compaction\" and a \"container\""}]}`, ""},
		{wire.Anthropic, `{"model":"m","container":null,"messages":[{"role":"user","content":"a"}]}`, ""},
		{wire.Anthropic, `{"model":"m","container":"c_1","messages":[{"role":"user","content":"a"}]}`, "container"},
		{wire.Anthropic, `{"model":"m","messages":[{"role":"user","content":"a"}],"container":{"id":"c"}}`, "container"},
		{wire.Anthropic, `{"model":"m","messages":[{"role":"assistant","content":[{"type":"compaction","content":"sum"}]},{"role":"user","content":"a"}]}`, "compaction"},
		{wire.Anthropic, `{"model":"m","context_management":{"edits":[{"type":"compact_20260112"}]},"messages":[{"role":"user","content":"a"}]}`, "context_management"},
		{wire.Anthropic, `{"model":"m","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"{\"type\":\"compaction\"}"}]}]}`, ""},
		{wire.OpenAIChat, `{"model":"m","messages":[{"role":"user","content":"a"}],"compaction":{"x":1}}`, "compaction"},
		{wire.OpenAIResponses, `{"model":"m","input":[{"type":"compaction","encrypted_content":"x"},{"role":"user","content":"a"}]}`, "compaction"},
		{wire.OpenAIResponses, `{"model":"m","input":[{"role":"user","content":"a"}],"conversation":"c_1"}`, "conversation"},
		{wire.OpenAIResponses, `{"model":"m","input":[{"role":"user","content":"a"}],"context_management":[{"type":"compaction","compact_threshold":1000}]}`, "context_management"},
	} {
		v, err := wire.Parse(c.format, []byte(c.body), nil)
		if err != nil {
			t.Errorf("%s: %v", c.body, err)
			continue
		}
		if got := ProvidersOnly(v); got != c.want {
			t.Errorf("%s asks for %q of its provider, want %q", c.body, got, c.want)
		}
	}
}
