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

package layer

import "github.com/caddy-llm-cache/caddy-llm-cache/metric"

// Resends counts requests that an upstream has refused for what was done to them, and
// that were sent once more as they came.
var Resends = metric.Counter("resends_total", "Originals sent once more after an edit met a 400.")

// EditRelated are the words by which an upstream's 400 names something that an edit
// of ours can break.
var EditRelated = [][]byte{
	[]byte("signature"), []byte("thinking"), []byte("cache_control"),
	[]byte("tool_use"), []byte("tool_result"), []byte("tool_call"),
	[]byte("function call"), []byte("function response"), // Gemini, Responses
	[]byte("function_call"), []byte("'reasoning' item"), []byte("type 'reasoning'"), []byte("prompt_cache_breakpoint"), // Responses
	[]byte("additional_tools"), []byte("mcp__llm_cache__expand"), // our own tool
}
