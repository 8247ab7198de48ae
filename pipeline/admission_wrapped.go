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

package pipeline

import (
	"bytes"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// wrapped finds the output of a command in the JSON that Codex puts around it:
// {"chunk_id":…,"wall_time_seconds":…,"exit_code":…,"output":"…"}, in older
// versions {"output":"…","metadata":{…}}. It returns where the JSON string of
// the output stands in the text.
func wrapped(s string) (start, end int, ok bool) {
	if !strings.HasPrefix(s, `{"chunk_id"`) && !strings.HasPrefix(s, `{"output"`) && !strings.HasPrefix(s, `{"wall_time`) || !wire.Valid(s) {
		return 0, 0, false
	}
	v := gjson.Parse(s)
	output := v.Get("output")
	if output.Type != gjson.String || output.Index == 0 || !v.Get("exit_code").Exists() && !v.Get("metadata").IsObject() && !v.Get("wall_time_seconds").Exists() {
		return 0, 0, false
	}
	return output.Index, output.Index + len(output.Raw), true
}

// unwrapJSON returns the output in such JSON, any other text as it is.
func unwrapJSON(s string) string {
	if start, end, ok := wrapped(s); ok {
		return gjson.Parse(s[start:end]).Str
	}
	return s
}

// maybeWrapped tells whether a JSON string may hold such JSON.
func maybeWrapped(body []byte) bool { return bytes.HasPrefix(body, []byte(`"{\"`)) }
